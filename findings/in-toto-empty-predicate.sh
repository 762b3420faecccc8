#!/usr/bin/env bash
# The in-toto attestation library refuses an empty predicate, which the format allows.
#
# in-toto-attestation 0.9.3 (Python).
# Expected from memory: of a statement, `predicate` is optional, and {} is an object.
# Seen: validate() fails with "Predicate object required", because an empty object counts as none.
# Who is hurt: statements whose predicate type says everything, as "this image was tested".
# Output:
#   ValueError: Predicate object required
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels in-toto-attestation==0.9.3
seen=$(python - 2>&1 << 'EOF' || true
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
subject = ResourceDescriptor(name="image", digest={"sha256": "ab" * 32}).pb
Statement([subject], "https://example.org/tested/v1", {}).validate()
print("valid")
EOF
)
tail -1 <<< "$seen"
is "what it says" "$(tail -1 <<< "$seen")" "ValueError: Predicate object required"
