#!/usr/bin/env bash
# kubernetes-validate passes objects of a kind that it does not know, also with --strict.
#
# kubernetes-validate 1.37.0.
# Expected from memory: --strict refuses what cannot be checked.
# Seen: a warning, and status 0: a misspelt kind (`Podd`) passes as a custom resource does.
# Who is hurt: pipelines that test manifests by its status.
# Output:
#   0 WARN pod.yaml Couldn't find schema for kind Podd with api version v1 for kubernetes version 1.37
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels kubernetes-validate==1.37.0
printf '%s\n' 'apiVersion: v1' 'kind: Podd' 'metadata: {name: x}' 'spec: {containers: []}' > pod.yaml
status=0
seen=$(python -m kubernetes_validate --strict pod.yaml 2>&1) || status=$?
echo "$status $seen"
is "status" "$status" 0
has "$seen" "Couldn't find schema for kind Podd"
