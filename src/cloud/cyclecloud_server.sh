#!/bin/bash
# Sets up the CycleCloud server of a cluster, once, at its first start: its administrator, its access to Azure, and the
# cluster's project. May be repeated. /etc/trireme/cyclecloud.env has its settings, which Terraform fills in.
# The administrator's password is created here. It is in no configuration, state or user data; root of this machine
# reads it in /root/trireme/password.
set -euo pipefail
umask 077
set -a
. /etc/trireme/cyclecloud.env
set +a
work=/root/trireme server=/opt/cycle_server
mkdir -p $work/cyclecloud
cd $work
say() { echo "trireme-cyclecloud: $*"; }
fail() { say "$*" >&2; exit 1; }

# retry SECONDS COMMAND...: roles take minutes to become effective.
retry() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || fail "$* did not succeed in time"
    sleep 15
  done
}

# The token of this machine's identity for storage, as a file of curl, so that no list of processes shows it.
fetch_token() {
  curl -sf --max-time 30 -H Metadata:true \
    "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&client_id=$TRIREME_CLIENT_ID&resource=https%3A%2F%2Fstorage.azure.com%2F" |
    python3 -c 'import json, sys; print("header = \"Authorization: Bearer %s\"" % json.load(sys.stdin)["access_token"])' >token
}
fetch_file() {
  mkdir -p "$(dirname "cyclecloud/$1")"
  curl -sf --max-time 1800 -K token -H "x-ms-version: 2021-08-06" -o "cyclecloud/$1" \
    "https://$TRIREME_ACCOUNT.blob.core.windows.net/$TRIREME_CONTAINER/trireme/$1"
}
fetch_project() {
  fetch_token || return 1
  while IFS= read -r file; do fetch_file "$file" || return 1; done </etc/trireme/cyclecloud.files
  chmod -R a+rX cyclecloud
  find cyclecloud -name '*.sh' -exec chmod a+x {} +
  rm -f token
}

start_server() {
  [ -s password ] || printf '%s-aZ7' "$(head -c 24 /dev/urandom | base64 | tr -d '/+=\n')" >password
  sed -i 's/^webServerEnableHttps=.*/webServerEnableHttps=true/; s/^webServerSslPort=.*/webServerSslPort=8443/' $server/config/cycle_server.properties
  # CycleCloud reads this file when it starts, and removes it.
  python3 - >account.json <<'END'
import json, os
name = os.environ["TRIREME_ADMIN"]
print(json.dumps([
    {"AdType": "Application.Setting", "Name": "cycleserver.installation.initial_user", "Value": name},
    {"AdType": "Application.Setting", "Name": "cycleserver.installation.complete", "Value": True},
    {"AdType": "AuthenticatedUser", "Name": name, "RawPassword": open("password").read(), "Superuser": True},
    {"AdType": "Credential", "CredentialType": "PublicKey", "Name": name + "/public", "PublicKey": os.environ["TRIREME_KEY"]},
]))
END
  install -o cycle_server -g cycle_server -m 600 account.json $server/config/data/account.json
  rm -f account.json
  $server/cycle_server restart
  $server/cycle_server await_startup
}

install_client() {
  command -v cyclecloud >/dev/null || {
    python3 -m zipfile -e $server/tools/cyclecloud-cli.zip client
    python3 client/cyclecloud-cli-installer/install.py -y --installdir /opt/cyclecloud-cli --system
  }
  cyclecloud initialize --batch --force --url=https://localhost:8443 --verify-ssl=false --username="$TRIREME_ADMIN" --password="$(cat password)"
}

# Access to Azure by the server's identity, the locker by identities as well: there is no key of the storage account.
set_access() {
  ! cyclecloud account show azure >/dev/null 2>&1 || return 0
  python3 - >access.json <<'END' || return 1
import json, os
e = os.environ
print(json.dumps({
    "Name": "azure", "Provider": "azure", "Environment": "public", "DefaultAccount": True, "AcceptMarketplaceTerms": True,
    "AuthType": "ManagedIdentity", "AzureRMUseManagedIdentity": True, "AzureRMClientId": e["TRIREME_CLIENT_ID"],
    "ProviderId": e["TRIREME_SUBSCRIPTION"], "AzureRMSubscriptionId": e["TRIREME_SUBSCRIPTION"], "AzureRMTenantId": e["TRIREME_TENANT"],
    "AzureResourceGroup": e["TRIREME_GROUP"], "Location": e["TRIREME_LOCATION"],
    "RMStorageAccount": e["TRIREME_ACCOUNT"], "RMStorageContainer": e["TRIREME_CONTAINER"],
    "LockerAuthMode": "ManagedIdentity", "LockerIdentity": e["TRIREME_LOCKER_IDENTITY"]}))
END
  cyclecloud account create -f access.json
}

import_cluster() {
  cd $work/cyclecloud && cyclecloud project upload azure-storage &&
    cyclecloud import_cluster "$TRIREME_CLUSTER" --cluster "$TRIREME_CLUSTER" --force --file templates/trireme.txt --parameters parameters.json \
      --parameter-override Credentials=azure --parameter-override "SubnetId=$TRIREME_SUBNET"
}

start_server
install_client
retry 900 fetch_project
retry 900 set_access
retry 900 import_cluster
[ "$TRIREME_START" != true ] || cyclecloud start_cluster "$TRIREME_CLUSTER"
say "the cluster $TRIREME_CLUSTER is ready on https://localhost:8443"
