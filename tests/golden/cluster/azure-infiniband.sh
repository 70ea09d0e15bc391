#!/usr/bin/env bash
# The cluster sea on Azure: what `trireme cluster create` runs, in this order. Run `az login` before.
set -euo pipefail
cd "$(dirname "$0")"

# a resource group for the cluster
az group create --name trireme-sea --location eastus --tags trireme-cluster=sea trireme-run=8f3f307572b9

# what the head may delete at the end of its lifetime: only this group
GROUP_ID=$(az group show --name trireme-sea --query id --output tsv)

# the firewall
az network nsg create --resource-group trireme-sea --name sea-nsg --location eastus --tags trireme-cluster=sea trireme-run=8f3f307572b9

# ssh from the caller's addresses only
az network nsg rule create --resource-group trireme-sea --name ssh --nsg-name sea-nsg --priority 1000 --direction Inbound --access Allow --protocol Tcp --destination-port-ranges 22 --source-address-prefixes 198.51.100.7/32

# the network
az network vnet create --resource-group trireme-sea --name sea-vnet --location eastus --address-prefixes 10.60.0.0/24 --subnet-name nodes --subnet-prefixes 10.60.0.0/24 --network-security-group sea-nsg --tags trireme-cluster=sea trireme-run=8f3f307572b9

# a route from the network to the storage
az network vnet subnet update --resource-group trireme-sea --name nodes --vnet-name sea-vnet --service-endpoints Microsoft.Storage

# storage that only the nodes can reach (NFS has no https)
az storage account create --resource-group trireme-sea --name trireme8f3f307572b9 --location eastus --kind FileStorage --sku Premium_LRS --https-only false --default-action Deny --vnet-name sea-vnet --subnet nodes --tags trireme-cluster=sea trireme-run=8f3f307572b9

# the shared folder
az storage share-rm create --resource-group trireme-sea --name cluster --storage-account trireme8f3f307572b9 --enabled-protocols NFS --root-squash NoRootSquash --quota 256

# one InfiniBand network for all: an availability set
az vm availability-set create --resource-group trireme-sea --name sea-set --location eastus --platform-fault-domain-count 2 --tags trireme-cluster=sea trireme-run=8f3f307572b9

# address of sea-1
az network public-ip create --resource-group trireme-sea --name sea-1-ip --location eastus --sku Standard --allocation-method Static --version IPv4 --tags trireme-cluster=sea trireme-run=8f3f307572b9

# network card of sea-1
az network nic create --resource-group trireme-sea --name sea-1-nic --location eastus --vnet-name sea-vnet --subnet nodes --private-ip-address 10.60.0.4 --public-ip-address sea-1-ip --accelerated-networking true --tags trireme-cluster=sea trireme-run=8f3f307572b9

# machine sea-1
az vm create --resource-group trireme-sea --name sea-1 --location eastus --size Standard_HB120rs_v3 --image Canonical:ubuntu-24_04-lts:server:latest --nics sea-1-nic --admin-username trireme --authentication-type ssh --ssh-key-values key.pub --custom-data cloud-init/node.yaml --os-disk-name sea-1-os --os-disk-size-gb 64 --os-disk-delete-option Delete --nic-delete-option Delete --availability-set sea-set --assign-identity '[system]' --role Contributor --scope "$GROUP_ID" --tags trireme-cluster=sea trireme-run=8f3f307572b9

# address of sea-2
az network public-ip create --resource-group trireme-sea --name sea-2-ip --location eastus --sku Standard --allocation-method Static --version IPv4 --tags trireme-cluster=sea trireme-run=8f3f307572b9

# network card of sea-2
az network nic create --resource-group trireme-sea --name sea-2-nic --location eastus --vnet-name sea-vnet --subnet nodes --private-ip-address 10.60.0.5 --public-ip-address sea-2-ip --accelerated-networking true --tags trireme-cluster=sea trireme-run=8f3f307572b9

# machine sea-2
az vm create --resource-group trireme-sea --name sea-2 --location eastus --size Standard_HB120rs_v3 --image Canonical:ubuntu-24_04-lts:server:latest --nics sea-2-nic --admin-username trireme --authentication-type ssh --ssh-key-values key.pub --custom-data cloud-init/node.yaml --os-disk-name sea-2-os --os-disk-size-gb 64 --os-disk-delete-option Delete --nic-delete-option Delete --availability-set sea-set --no-wait --tags trireme-cluster=sea trireme-run=8f3f307572b9

# waiting for sea-1
az vm wait --resource-group trireme-sea --name sea-1 --created --interval 15 --timeout 1200

# waiting for sea-2
az vm wait --resource-group trireme-sea --name sea-2 --created --interval 15 --timeout 1200
