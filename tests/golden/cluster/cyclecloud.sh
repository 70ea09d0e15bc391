#!/usr/bin/env bash
# The cluster sea on a CycleCloud server: run `cyclecloud initialize` before. Its locker, credentials and subnet:
# commands.sh LOCKER CREDENTIALS RESOURCE-GROUP/NETWORK/SUBNET
set -euo pipefail
cd "$(dirname "$0")/cyclecloud"
locker=${1:?the name of a locker: cyclecloud locker list shows them}
credentials=${2:?the name of the credentials: cyclecloud account list shows them}
subnet=${3:?resource group/network/subnet}

cyclecloud project upload "$locker"
cyclecloud import_cluster sea --cluster sea --file templates/trireme.txt --parameters parameters.json \
  --parameter-override "Credentials=$credentials" --parameter-override "SubnetId=$subnet"
cyclecloud start_cluster sea
