#!/bin/bash
# A buffer over all that has come, brought up to date every night; from cron:
#   15 2 * * *  nightly-stream.sh 2000 /shared/buffer /shared/incoming/$(date +\%F).h5
set -eu
budget=$1 buffer=$2 today=$3
python=${PYTHON:-python3}
mkdir -p "$buffer"
"$python" -m pdac_cli stream --quiet --budget "$budget" "$today" --state "$buffer/state.h5" \
    -o "$buffer/rows.json" --force
