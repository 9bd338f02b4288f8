/* Weights for the kernels byte_set_of_pairs(): products of bytes by two neighbouring weights must fit into 16 bits.
 * Models that were quantized for CPUs without VNNI have such weights, of 7 bits ("reduce_range" of ONNX Runtime). */
#include "cpu/quantized/bytes.h"
#include "inlay/extensions.h"
#include "cpu/weights/packs.h"

/* Do n pairs a[i] and b[i] add up to -128 to 128 each? */
static bool neighbours_fit(const uint8_t *a, const uint8_t *b, int64_t n, int shift)
{
    int more = 0;

    if (shift == 0)
        for (int64_t i = 0; i < n; i++)
            more |= (unsigned)((int8_t)a[i] + (int8_t)b[i] + 128) > 256;
    else
        for (int64_t i = 0; i < n; i++)
            more |= (unsigned)(a[i] + b[i] - 2 * shift + 128) > 256;
    return more == 0;
}

/* shift: what is subtracted from unsigned weights; 0: they are signed. */
static bool pairs_fit(const tensor_layout *plain, const uint8_t *weights, int shift)
{
    const int64_t out = plain->dims[0], in = plain->dims[1], s_out = plain->strides[0], s_in = plain->strides[1];
    int64_t taps = 1;

    for (int d = plain->rank; d-- > 2; taps *= plain->dims[d])
        if (plain->strides[d] != taps)
            return false;
    if (plain->rank == 2 && s_out == 1) { /* rows of a matrix [in, out] */
        for (int64_t i = 0; i + 1 < in; i += 2)
            if (!neighbours_fit(weights + i * s_in, weights + (i + 1) * s_in, out, shift))
                return false;
        return true;
    }
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i + 1 < in; i += 2)
            if (!neighbours_fit(weights + o * s_out + i * s_in, weights + o * s_out + (i + 1) * s_in, taps, shift))
                return false;
    return true;
}

/* The result of pairs_fit(). The host stores it with the packed weights, so that later sessions do not check again. */
static bool known_to_fit(const inlay_compiled *compiled, const cpu_constant *constant, const tensor_layout *plain)
{
    const uint64_t key[] = { constant->content_hash,      UINT64_C(0x7061697273000001),
                             (uint64_t)plain->rank,       (uint64_t)plain->dims[0],
                             (uint64_t)plain->dims[1],    (uint64_t)plain->strides[0],
                             (uint64_t)plain->strides[1], constant->shift };
    bool known, fits;
    uint64_t *kept = cpu_constant_fact(compiled, constant, key, KIT_COUNT(key), sizeof *kept, &known);

    if (kept != NULL && known)
        return *kept != 0;
    fits = pairs_fit(plain, constant->data, constant->shift);
    if (kept != NULL) {
        *kept = fits;
        compiled->state->packs->keep(compiled->state->host->ctx, compiled->compiling, kept);
    }
    return fits;
}

const byte_set *bytes_set_for(const cpu_build *build, uint32_t value, const tensor_layout *plain)
{
    const uint32_t index = build->compiled->values[value].constant;
    cpu_constant *constant = index == INLAY_NONE ? NULL : &build->compiled->constants[index];

    if (constant == NULL || byte_set_of_pairs() == NULL || build->state->bytes != byte_set_of_cpu())
        return build->state->bytes;
    if (constant->pairs == 0 && constant->data != NULL)
        constant->pairs = known_to_fit(build->compiled, constant, plain) ? 1 : -1;
    return constant->pairs > 0 ? byte_set_of_pairs() : build->state->bytes;
}
