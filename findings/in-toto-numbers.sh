#!/usr/bin/env bash
# The in-toto attestation library makes every number of a predicate a floating-point one: large integers change.
#
# in-toto-attestation 0.9.3 (Python).
# Expected from memory: a predicate is kept as it is.
# Seen: it becomes a protobuf Struct, whose numbers are doubles. 9007199254740993 is written as 9007199254740992.0, and 1 as
#   1.0, so that the bytes and any digest over them differ from what was given.
# Who is hurt: statements with sizes in bytes, counters or times in nanoseconds.
# Output:
#   {"large": 9007199254740992.0, "one": 1.0}
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels in-toto-attestation==0.9.3
seen=$(python - << 'EOF'
import json
from google.protobuf import json_format
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
subject = ResourceDescriptor(name="image", digest={"sha256": "ab" * 32}).pb
statement = Statement([subject], "https://example.org/report/v1", {"large": 9007199254740993, "one": 1})
statement.validate()
print(json.dumps(json.loads(json_format.MessageToJson(statement.pb))["predicate"], sort_keys=True))
EOF
)
echo "$seen"
is "the predicate" "$seen" '{"large": 9007199254740992.0, "one": 1.0}'
