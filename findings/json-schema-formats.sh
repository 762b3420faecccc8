#!/usr/bin/env bash
# A JSON Schema with Rust's number formats (schemars) compiles in Python's jsonschema and is refused by ajv, also with ajv-formats.
#
# schemars writes format double, uint8 and uint64; ajv 8.20.0, ajv-formats 3.0.1, jsonschema 4.26.0.
# Expected from memory: an unknown format is an annotation, which validators ignore.
# Seen: ajv refuses the whole schema, since strict mode is its default. ajv-formats adds double, and still has no uint64.
#   Python's jsonschema ignores all formats, so neither checks that a uint8 is below 256 unless the schema has a maximum.
# Who is hurt: programs that publish the schema of their reports as schemars makes it.
# Output:
#   ajv: unknown format "double" ignored in schema at path "#/properties/seconds"
#   ajv with ajv-formats: unknown format "uint64" ignored in schema at path "#/properties/bytes"
#   jsonschema: 256 as uint8 is valid
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cat > schema.json << 'EOF'
{ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {
    "seconds": { "type": "number", "format": "double" },
    "bytes": { "type": "integer", "format": "uint64", "minimum": 0 },
    "small": { "type": "integer", "format": "uint8", "minimum": 0 } } }
EOF
cat > compile.js << 'EOF'
const schema = JSON.parse(require("fs").readFileSync("schema.json"));
for (const formats of [false, true]) {
    const ajv = new (require("ajv/dist/2020").default)();
    if (formats) require("ajv-formats")(ajv);
    const name = formats ? "ajv with ajv-formats" : "ajv";
    try { ajv.compile(schema); console.log(`${name}: compiled`); } catch (error) { console.log(`${name}: ${error.message}`); }
}
EOF
node_packages ajv@8.20.0 ajv-formats@3.0.1
wheels jsonschema==4.26.0
seen=$(node compile.js; python -c '
import json
from jsonschema import Draft202012Validator as Validator
print("jsonschema: 256 as uint8 is", "valid" if Validator(json.load(open("schema.json"))).is_valid({"small": 256}) else "refused")')
echo "$seen"
is "what they say" "$seen" 'ajv: unknown format "double" ignored in schema at path "#/properties/seconds"
ajv with ajv-formats: unknown format "uint64" ignored in schema at path "#/properties/bytes"
jsonschema: 256 as uint8 is valid'
