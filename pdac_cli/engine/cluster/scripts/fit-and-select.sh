#!/bin/bash
# Fit and select on the nodes of one SLURM job, by a scheduler file on the shared file system:
#   sbatch fit-and-select.sh 20000 /shared/work '/shared/shards/*.h5'
# Without a job of its own, dask-jobqueue asks SLURM for workers as ~/.config/dask/jobqueue.yaml says:
#   pdac select --cluster slurm --scratch /shared/work --budget 20000 '/shared/shards/*.h5' -o rows.npy
#SBATCH --nodes=4 --ntasks-per-node=1 --cpus-per-task=16 --time=8:00:00
#SBATCH --signal=B:USR1@120 --requeue
set -u
budget=$1 work=$2 shards=$3
python=${PYTHON:-python3} run=${RUN:-srun} code=0
export OMP_NUM_THREADS=1
file=$work/scheduler-${SLURM_JOB_ID:-0}.json
"$python" -m distributed.cli.dask_scheduler --port 0 --dashboard-address 127.0.0.1:0 --scheduler-file "$file" ${HOST:-} &
scheduler=$!
$run "$python" -m distributed.cli.dask_worker --scheduler-file "$file" --nthreads "${SLURM_CPUS_PER_TASK:-1}" \
    --dashboard-address 127.0.0.1:0 --death-timeout 120 ${HOST:-} &
workers=$!
until [ -s "$file" ]; do sleep 0.2; done
stage() {                                        # two minutes before the end: keep what is finished, come back
    "$python" -m pdac_cli "$@" --scheduler-file "$file" --scratch "$work" --force & child=$!
    trap 'kill -USR1 $child' USR1
    wait $child; code=$?
    [ $code -gt 128 ] && { wait $child; code=$?; }
}
[ -e "$work/model.h5" ] || stage fit "$shards" -o "$work/model.h5"
[ $code -eq 0 ] && stage select "$shards" --model "$work/model.h5" --budget "$budget" -o "$work/rows.npy"
kill $workers $scheduler; wait $workers $scheduler 2>/dev/null
[ $code -eq 6 ] && scontrol requeue "$SLURM_JOB_ID"
exit $code
