#!/usr/bin/env bash
# Makes .venv with everything that the toy run and the tests need.  `make setup` calls it; a second call with nothing
# changed returns at once.
#
#   .ci/setup.sh              install (EXTRAS=gpu,dev for a GPU machine; default cpu,dev)
#   .ci/setup.sh --missing    print the system packages that are missing (Debian names), install nothing
#
# TORCH_INDEX   wheel index asked only if pip alone does not find the CPU build of torch
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extras=${EXTRAS:-cpu,dev}
torch_index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}
log=.venv/setup.log
stamp=.venv/setup.stamp

say() { echo "[setup] $*"; }

find_python() { # the first interpreter that starts and is 3.11
    local name
    for name in python3.11 python3 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
}

missing_packages() { # prints Debian package names; $1 is the interpreter, or empty
    local python=$1 packages=()
    if [[ -z $python ]]; then
        packages+=(python3.11 python3.11-venv python3.11-dev)
    else
        "$python" -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3.11-venv)
        # PyTorch compiles operators at the first run: that needs Python.h, g++ and gcc.
        "$python" -c 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' \
            2>/dev/null || packages+=(python3.11-dev)
    fi
    command -v gcc >/dev/null || packages+=(gcc)
    command -v g++ >/dev/null || packages+=(g++)
    command -v make >/dev/null || packages+=(make)
    # vLLM's CPU build links to libnuma.
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep 'libnuma\.so\.1' >/dev/null || packages+=(libnuma1)
    echo "${packages[*]:-}"
}

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check "$@" >>"$log" 2>&1; }

fail() {
    say "failed; the end of $log:" >&2
    tail -n 25 "$log" >&2
    exit 1
}

remove_broken_extras_of_torch() {
    # vLLM requires these three, but the wheels found beside a CPU torch may be built for another torch, and then
    # break `import vllm` as well.  Text models run without them.
    local name
    for name in torchvision torchaudio torchcodec; do
        .venv/bin/python -m pip show --quiet "$name" >/dev/null 2>&1 || continue
        if ! .venv/bin/python -c "import $name" >>"$log" 2>&1; then
            say "removing $name: it does not import with this torch, and text models do not need it"
            .venv/bin/python -m pip uninstall --yes "$name" >>"$log" 2>&1 || fail
        fi
    done
}

python=$(find_python)
if [[ ${1:-} == --missing ]]; then
    missing_packages "$python"
    exit
fi

# The folder is part of the key: a virtual environment that was moved does not work.
key=$( (cat pyproject.toml .ci/setup.sh && echo "$extras $PWD") | sha256sum | cut -d' ' -f1)
if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then
    exit 0
fi

missing=$(missing_packages "$python")
if [[ -n $missing ]]; then
    say "missing system packages.  On Debian or Ubuntu:" >&2
    say "    apt-get update && apt-get install --yes --no-install-recommends $missing" >&2
    exit 1
fi

start=$SECONDS
rm -f "$stamp"
if ! .venv/bin/python -c '' 2>/dev/null; then
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
: >"$log"
say "installing .[$extras] into .venv (about 5 minutes on two cores, 4 GB; details in $log)"
if ! pip_install --editable ".[$extras]"; then
    # pip says it in one of these ways; the last is how it puts it where a constraint file names torch.
    if ! grep -qE '(No matching distribution found for|satisfies the requirement|depends on) torch==' "$log"; then
        fail
    fi
    say "pip alone does not find this torch: trying again with $torch_index"
    pip_install --editable ".[$extras]" --extra-index-url "$torch_index" || fail
fi
say "checking torchvision, torchaudio, torchcodec"
remove_broken_extras_of_torch
echo "$key" >"$stamp"
say "done in $((SECONDS - start)) s"
