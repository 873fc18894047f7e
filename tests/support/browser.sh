# browser.sh - sourced by tests of pages in a browser: skips, and says so, where there is none.
# Afterwards $work is a fresh folder, and check_page FILE.py ARGUMENTS runs a check of
# tests/browser. With QKV_SHOTS=FOLDER checks leave their screenshots there.
# shellcheck shell=sh
for program in chromium chromedriver python3; do
    command -v "$program" >/dev/null || {
        echo "SKIPPED: no $program: pages are not tested in a browser" \
            "(Debian: chromium chromium-driver python3)"
        exit 77
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
export QKV_SHOTS="${QKV_SHOTS:-$work}"
check_page() {
    check=$1
    shift
    PYTHONDONTWRITEBYTECODE=1 python3 "$QKV_SOURCE/tests/browser/$check" "$@"
}
