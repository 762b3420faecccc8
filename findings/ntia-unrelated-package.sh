#!/usr/bin/env bash
# The NTIA checker judges only packages that relationships lead to: others may lack version and supplier.
#
# ntia-conformance-checker 6.0.0.
# Expected from memory: "All component versions provided?" is about all packages of the document.
# Seen: a package to which no relationship leads from the described one is left out, with a warning; the document is conformant.
# Who is hurt: who forgets a CONTAINS, and takes the answer for one about the whole list.
# Output:
#   0 Conformant: True
#   Found 1 disconnected 'floating' elements.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels ntia-conformance-checker==6.0.0 spdx-tools==0.8.5
python - << 'EOF'
import json
package = dict.fromkeys(("downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"), "NOASSERTION")
package |= {"SPDXID": "SPDXRef-a", "name": "a", "filesAnalyzed": False}
document = {
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "x",
    "documentNamespace": "urn:example:x", "creationInfo": {"created": "2026-01-01T00:00:00Z", "creators": ["Tool: x-1"]},
    "packages": [package | {"versionInfo": "1", "supplier": "Organization: Example"}, package | {"SPDXID": "SPDXRef-b", "name": "b"}],
    "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-a"}],
}
json.dump(document, open("x.spdx.json", "w"))
EOF
status=0
seen=$(python python/bin/ntia-checker x.spdx.json 2>&1) || status=$?
echo "$status $(grep -o 'Conformant: .*' <<< "$seen")"
grep 'Found 1' <<< "$seen" || true
is "status" "$status" 0
has "$seen" "Conformant: True"
has "$seen" "Found 1 disconnected"
