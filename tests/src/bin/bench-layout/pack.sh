#!/bin/sh
# pack.sh: runs in the tools tree, in a folder with the shipped driver image `driver.squashfs`, and packs its files
# anew, compressed as a file system does it: each block by itself, so that one can be read without the others.
set -eu
unsquashfs -q -n -d tree driver.squashfs > pack.log
mkfs.erofs -zzstd,level=12 -C1048576 -T"$SOURCE_DATE_EPOCH" --all-root --quiet zstd.erofs tree
mkfs.erofs -zlz4hc,level=12 -C1048576 -T"$SOURCE_DATE_EPOCH" --all-root --quiet lz4hc.erofs tree
mksquashfs tree zstd.squashfs -comp zstd -Xcompression-level 19 -b 1M -no-xattrs -all-root -noappend -no-progress -quiet
rm -rf tree
