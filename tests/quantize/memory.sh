#!/bin/bash
# inlay quantize holds the weights of one float model at a time, regardless of the number of samples.
#   memory.sh INLAY MAKE_MODELS PEAK_OF
set -u
inlay=$1 peak_of=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
common=(--no-config --cache-dir "" --intra-threads 1 --quiet --probe never)
"$2" "$work" || exit 1
cd "$work" || exit 1
wrong=0

# peak VERB ARGUMENT...   prints the peak memory of inlay with these arguments, in KiB.
peak() {
    if ! "$peak_of" kib "$inlay" "$@" "${common[@]}" >out 2>err </dev/null; then
        echo "WRONG: inlay $*: $(head -c 300 err)" >&2
        echo 0
        return
    fi
    cat kib
}

# Tensors as exporters write them: raw bytes, which are mapped.
"$inlay" optimize wide.onnx -o raw.onnx --level 0 "${common[@]}" || exit 1
run=$(peak run raw.onnx --dim N=1)
few=$(peak quantize raw.onnx -o q.onnx --data few.npz --mode static --weights 8 --method minmax --metric cosine --at-least 0)
many=$(peak quantize raw.onnx -o q.onnx --data many.npz --mode static --weights 8 --method minmax --metric cosine --at-least 0)
four=$(peak quantize raw.onnx -o q.onnx --data few.npz --weights 8 --metric cosine)
echo "KiB: a run $run, quantize with 8 samples $few, with 400 samples $many, weights alone $four"
for value in "$few" "$many" "$four"; do
    if [ "$run" = 0 ] || [ "$value" = 0 ] || [ $((value * 2)) -gt $((run * 3)) ]; then
        echo "WRONG: $value KiB, more than 1.5 times a run's $run"
        wrong=$((wrong + 1))
    fi
done
if [ $((many - few)) -gt 4096 ]; then
    echo "WRONG: memory grows with the samples: $few KiB with 8, $many with 400"
    wrong=$((wrong + 1))
fi

# A sparse initializer of four fifths zeros is never expanded: compared with a model without weights, a run needs less
# than the dense matrix alone (24 MiB), of which it reads three fifths from the file and packs a quarter.
if "$inlay" explain wide_sparse.onnx --kernels "${common[@]}" 2>err | grep -q packed_sparse; then
    small=$(peak run sparse.onnx)
    dense=$(peak run wide_dense.onnx)
    sparse=$(peak run wide_sparse.onnx)
    echo "KiB: a run of a small model $small, of a dense matrix $dense, of the same in sparse form $sparse"
    if [ "$sparse" = 0 ] || [ $((sparse - small)) -ge 24576 ] || [ "$sparse" -ge "$dense" ]; then
        echo "WRONG: the sparse matrix takes $((sparse - small)) KiB"
        wrong=$((wrong + 1))
    fi
fi
exit $((wrong > 0))
