#!/usr/bin/env bash
# Debian's perftest has no CUDA, though its newer version knows the word --use_cuda.
#
# perftest 4.5+0.17 (Debian 12) and 25.01.0+0.80 (Debian 13).
# Expected from memory: a packaged ib_write_bw tests GPU memory with --use_cuda=0.
# Seen: 4.5 does not know the option; 25.01 knows it and says "Unsupported memory type". Neither names it in --help.
# Who is hurt: guides to GPUDirect RDMA that install perftest from the distribution.
# Output:
#   bookworm 1 ib_write_bw: unrecognized option '--use_cuda=0'
#   trixie 1 Unsupported memory type
set -euo pipefail
. "$(dirname "$0")/lib.sh"

debian bookworm perftest=4.5+0.17-1
debian trixie perftest=25.01.0+0.80-1
for suite in bookworm trixie; do
    status=0
    seen=$(of "$suite" ib_write_bw --use_cuda=0 2>&1) || status=$?
    echo "$suite $status $(grep -m 1 'unrecognized\|Unsupported' <<< "$seen")"
    is "status" "$status" 1
    case $suite in
        bookworm) has "$seen" "unrecognized option '--use_cuda=0'" ;;
        trixie) has "$seen" "Unsupported memory type" ;;
    esac
    lacks "$(of "$suite" ib_write_bw --help 2>&1 || true)" use_cuda
done
