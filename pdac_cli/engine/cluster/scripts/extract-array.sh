#!/bin/bash
# Features of all images by an array of jobs, then one file of them:
#   first=$(sbatch --parsable extract-array.sh resnet18.pt images/ parts)
#   sbatch --dependency=afterok:$first --wrap 'pdac merge parts/part-*.h5 -o feats.h5'
#SBATCH --array=0-7
#SBATCH --gpus=1 --cpus-per-task=8 --time=1:00:00
#SBATCH --signal=B:TERM@60 --requeue
set -u
checkpoint=$1 images=$2 parts=$3
mkdir -p "$parts"
pdac extract --checkpoint "$checkpoint" --data "$images" --shard slurm \
    -o "$parts/part-$SLURM_ARRAY_TASK_ID.h5" & child=$!
trap 'kill -TERM $child' TERM                    # a minute before the end: finish the batch, keep the parts
wait $child; code=$?
[ $code -gt 128 ] && { wait $child; code=$?; }   # the trap interrupted the first wait
[ $code -eq 6 ] && scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
exit $code
