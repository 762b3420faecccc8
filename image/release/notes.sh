#!/usr/bin/env bash
# notes.sh [TAG]: prints what changed in the commit that is checked out since TAG, by default since the last tag before it: the
# titles of all commits by their part, as plain text. The same commit and tag give the same text.
set -euo pipefail
source "$(dirname "$0")/../lib/common.sh"
since=${1:-}
cd "$REPO"
in_git() { git -c core.quotePath=false -c log.showSignature=false "$@"; }
commit=$(in_git rev-parse --verify -q HEAD) || die "$REPO is not a git checkout" "a release is made of a commit"
changed=$(in_git status --porcelain)
[ -z "$changed" ] || die "$(wc -l <<< "$changed") files are not as in commit ${commit:0:12}" "the first: $(head -1 <<< "$changed" | cut -c4-)"
[ "$(in_git rev-parse --is-shallow-repository)" = false ] || die "this checkout has not all commits" "git fetch --unshallow --tags"
if [ -n "$since" ]; then
    in_git rev-parse --verify -q "refs/tags/$since^{commit}" > /dev/null || die "there is no tag '$since'" "$(in_git tag --sort=-creatordate | head -5 | paste -sd' ')"
    in_git merge-base --is-ancestor "$since" HEAD || die "tag '$since' is not before commit ${commit:0:12}"
else
    # A tag of this commit itself names this release, so it does not count.
    since=$(in_git describe --tags --abbrev=0 'HEAD^' 2> /dev/null || true)
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
titles=$(in_git log --no-merges --reverse --format=%s "${since:+refs/tags/$since..}HEAD")
count=$(grep -c . <<< "$titles" || true)
printf 'firstlight %s\ncommit %s\n\n' "$version" "$commit"
if [ -n "$since" ]; then echo "Changes since $since ($count):"; else echo "All changes ($count):"; fi
# The part is what precedes the colon; titles without one come last. Parts are in alphabetical order, titles in that of commits.
awk '
    { part = "other"; title = $0
      if (match($0, /^[a-z0-9][a-z0-9 ,_-]*: /)) { part = substr($0, 1, RLENGTH - 2); title = substr($0, RLENGTH + 1) }
      if (title == "") next
      key = (part == "other" ? "1" : "0") part
      print key "\t" NR "\t" part "\t" title }' <<< "$titles" | LC_ALL=C sort -t "$(printf '\t')" -k1,1 -k2,2n |
    awk -F'\t' '$3 != last { printf "\n%s\n", $3; last = $3 } { print "  - " $4 }'
