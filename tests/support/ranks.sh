# shellcheck shell=sh
# ranks.sh - sourced after commands.sh: the launchers of the MPIs that are installed and that this
# build knows, in $launchers (openmpi mpich). Without any the test is skipped.
launchers=
for mpi in openmpi mpich; do
    [ -e "$QKV_BUILD/libqkv-$mpi.so" ] && [ -z "$QKV_RUN" ] &&
        command -v mpirun.$mpi >/dev/null 2>&1 && launchers="$launchers $mpi"
done
if [ -z "$launchers" ]; then
    echo "skipped: no MPI (mpirun.openmpi, mpirun.mpich) that this build knows"
    exit 77
fi

# ranks MPI N COMMAND... : the command on N ranks of this machine, which share its cores.
ranks() {
    mpi=$1 n=$2
    shift 2
    case $mpi in
    openmpi)
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi \
            --oversubscribe --bind-to none -n "$n" "$@"
        ;;
    mpich) mpirun.mpich -n "$n" "$@" ;;
    esac
}
