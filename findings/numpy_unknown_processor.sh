#!/usr/bin/env bash
# Believed: numpy's float32 matrix product depends on what a processor can do, so two processors with
#           AVX2 and FMA give the same bytes.
# Happens:  the OpenBLAS in numpy 1.26.4's wheels chooses its kernel by the processor's model number.
#           With one that it does not know (207, Intel's Emerald Rapids) it takes "Prescott", a
#           kernel without FMA, and the last digits are others. OPENBLAS_CORETYPE=Haswell mends it.
#           numpy 2.4.6 gives the same bytes for both numbers.
# Version:  numpy 1.26.4 (OpenBLAS 0.3.23) and 2.4.6, x86-64 Linux, Python 3.11 or 3.12, qemu-user
#           7.2, November 2026.
# Source:   driver/others/dynamic.c of OpenBLAS, https://github.com/OpenMathLib/OpenBLAS/issues/4267
set -euo pipefail
if ! command -v qemu-x86_64 >/dev/null; then
    echo "needs qemu-x86_64, which plays another processor: apt-get install qemu-user" >&2
    exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.26.4 2.4.6; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "numpy==$version"
done
cat > "$folder/product.py" <<'PYTHON'
import hashlib

import numpy as np

random = np.random.default_rng(1)
left = random.standard_normal((64, 64)).astype(np.float32)
right = random.standard_normal((64, 64)).astype(np.float32)
print(hashlib.sha256((left @ right).tobytes()).hexdigest()[:12])
PYTHON

# product VERSION CPU [NAME=VALUE]: the hash of a product on that processor.
product() {
    local packages
    packages=$(echo "$folder/$1"/lib/python3*/site-packages)
    env OPENBLAS_NUM_THREADS=1 PYTHONPATH="$packages" "${@:3}" \
        qemu-x86_64 -cpu "$2" "$(readlink -f "$folder/$1/bin/python")" "$folder/product.py" 2>"$folder/errors" ||
        { cat "$folder/errors" >&2; return 1; }
}
known=$(product 1.26.4 Haswell)
unknown=$(product 1.26.4 Haswell,model=207)
forced=$(product 1.26.4 Haswell,model=207 OPENBLAS_CORETYPE=Haswell)
new_known=$(product 2.4.6 Haswell)
new_unknown=$(product 2.4.6 Haswell,model=207)
echo "numpy 1.26.4: model 60 $known, model 207 $unknown, with OPENBLAS_CORETYPE=Haswell $forced"
echo "numpy 2.4.6:  model 60 $new_known, model 207 $new_unknown"
if [ "$known" = "$unknown" ] || [ "$known" != "$forced" ] || [ "$new_known" != "$new_unknown" ]; then
    echo "changed" >&2
    exit 1
fi
echo "as described"
