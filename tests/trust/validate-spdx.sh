#!/usr/bin/env bash
# validate-spdx.sh FILE: has SPDX's own Python tools validate a document; status 1 and what is wrong where it is not
# valid. They come from the Python package index through pip, pinned by version and hash (validator.txt), into a
# folder of firstlight's cache; nothing is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}/spdx
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=$cache/$(sha256sum < "$here/validator.txt" | cut -c1-16)-$version
mkdir -p "$cache"
exec 9> "$cache/lock"; flock 9
if [ ! -e "$folder" ]; then
    new=$(mktemp -d "$cache/new.XXXXXX"); trap 'rm -rf "$new"' EXIT
    echo "downloading SPDX's tools (3 MB)" >&2
    pip3 install --quiet --no-deps --only-binary :all: --require-hashes --target "$new" -r "$here/validator.txt" >&2 ||
        { echo "validate-spdx: error: the validator cannot be had (pip's lines are above)" >&2; exit 2; }
    mv "$new" "$folder"
fi
PYTHONPATH=$folder exec python3 -B -c '
import sys
from spdx_tools.spdx.parser.error import SPDXParsingError
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

try:
    wrong = [message.validation_message for message in validate_full_spdx_document(parse_file(sys.argv[1]))]
except SPDXParsingError as error:
    wrong = error.get_messages()
print("\n".join(sorted(set(map(str, wrong)))), end="\n" if wrong else "")
sys.exit(1 if wrong else 0)
' "$1"
