#!/usr/bin/env bash
# validate-spdx.sh FILE: has SPDX's own Python tools validate a document; status 1 and what is wrong where it is not
# valid. They come from the Python package index through pip, pinned by version and hash, into a folder of
# firstlight's cache; nothing is installed.
set -euo pipefail
# NAME==VERSION and the hashes of its files (pyyaml: for Python 3.11 and 3.13)
pins='
beartype==0.23.1 \
    --hash=sha256:4461b4dc57e3fdd6c8a8464b22cf118002eea107c33e9fef651c69068ab3cce3
boolean.py==5.0 \
    --hash=sha256:ef28a70bd43115208441b53a045d1549e2f0ec6e3d08a9d142cbc41c1938e8d9
click==8.5.1 \
    --hash=sha256:8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37
license-expression==30.4.4 \
    --hash=sha256:421788fdcadb41f049d2dc934ce666626265aeccefddd25e162a26f23bcbf8a4
ply==3.11 \
    --hash=sha256:096f9b8350b65ebd2fd1346b12452efe5b9607f7482813ffca50c22722a807ce
pyparsing==3.3.3 \
    --hash=sha256:ece8c00a69cf01b45d0b1dedabb469c90d8caf996d4fda40f147627a122849a4
pyyaml==6.0.3 \
    --hash=sha256:b8bb0864c5a28024fac8a632c443c87c5aa6f215c0b126c449ae1a150412f31d \
    --hash=sha256:0f29edc409a6392443abf94b9cf89ce99889a1dd5376d94316ae5145dfedd5d6
rdflib==7.6.0 \
    --hash=sha256:30c0a3ebf4c0e09215f066be7246794b6492e054e782d7ac2a34c9f70a15e0dd
semantic-version==2.10.0 \
    --hash=sha256:de78a3b8e0feda74cabc54aab2da702113e33ac9d9eb9d2389bcf1f58b7d9177
spdx-tools==0.8.5 \
    --hash=sha256:7c2d5865941be9d2e898f5b084e8d5422dd298dc5a29320ddb198fec304f59c4
uritools==6.1.4 \
    --hash=sha256:7e48617975c3ccd3ee11da4641af8f8c9b97dcd7e75969a4cdfd7c8ce177f4e3
xmltodict==1.0.4 \
    --hash=sha256:a4a00d300b0e1c59fc2bfccb53d7b2e88c32f200df138a0dd2229f842497026a
'
cache=${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}/spdx
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
folder=$cache/$(sha256sum <<< "$pins" | cut -c1-16)-$version
mkdir -p "$cache"
exec 9> "$cache/lock"; flock 9
if [ ! -e "$folder" ]; then
    new=$(mktemp -d "$cache/new.XXXXXX"); trap 'rm -rf "$new"' EXIT
    echo "downloading SPDX's tools (3 MB)" >&2
    pip3 install --quiet --no-deps --only-binary :all: --require-hashes --target "$new" -r <(echo "$pins") >&2 ||
        { echo "validate-spdx: error: the validator cannot be downloaded (pip's lines are above)" >&2; exit 2; }
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
