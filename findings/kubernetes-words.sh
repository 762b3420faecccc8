#!/usr/bin/env bash
# kubernetes-validate accepts any word where Kubernetes allows a few: restartPolicy: Sometimes is valid.
#
# kubernetes-validate 1.37.0.
# Expected from memory: the schemas list the words of restartPolicy, imagePullPolicy and a taint's effect.
# Seen: to the schemas they are texts. A taint with the effect NoShedule, and a pod with restartPolicy Sometimes, pass --strict;
#   the server refuses both.
# Who is hurt: manifests that keep pods off bad nodes by a taint, tested and then refused.
# Output:
#   INFO node.yaml passed for resource node/x against version 1.37
#   INFO pod.yaml passed for resource pod/x against version 1.37
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels kubernetes-validate==1.37.0
printf '%s\n' 'apiVersion: v1' 'kind: Node' 'metadata: {name: x}' 'spec: {taints: [{key: a, effect: NoShedule}]}' > node.yaml
printf '%s\n' 'apiVersion: v1' 'kind: Pod' 'metadata: {name: x}' \
    'spec: {restartPolicy: Sometimes, containers: [{name: c, image: x, imagePullPolicy: never}]}' > pod.yaml
status=0
seen=$(python -m kubernetes_validate --strict node.yaml pod.yaml 2>&1) || status=$?
echo "$seen"
is "status" "$status" 0
has "$seen" "node.yaml passed"
has "$seen" "pod.yaml passed"
