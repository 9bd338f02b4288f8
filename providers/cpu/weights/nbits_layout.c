/* The layouts of packed n-bit weights, with the shape in dims. Packs constants into them. */
#include "cpu/weights/nbits_weights.h"
#include "inlay/host.h"
#include "cpu/weights/blocks.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(nbits_is_pack, "cpu_weights cpu_nbits_product cpu_experts");
OPTIONAL_WITH(nbits_pack, "cpu_weights cpu_nbits_product cpu_experts");

enum { D_BITS, D_K, D_N, D_BLOCK, D_K_STEP, D_N_STEP, D_TYPE, D_ROW_BYTES, D_COUNT };
enum { SIGNED = 1, E2M1 = 2 }; /* D_TYPE, see nbits_source */

int64_t nbits_row_bytes(const cpu_nbits *nbits)
{
    return nbits->packed_zeros ? ((nbits->k + nbits->block - 1) / nbits->block * nbits->bits + 7) / 8 : 0;
}

/* Element (block, n) of the zero points. */
static float zero_at(const cpu_nbits *nbits, const void *data, int64_t block, int64_t n)
{
    const char *row = (const char *)data + n * nbits_row_bytes(nbits);
    const int64_t at = block * nbits->zero_steps[0] + (nbits->packed_zeros ? 0 : n * nbits->zero_steps[1]);
    float zero;

    if (!nbits->float_zeros)
        return (float)nbits_element(row, at, nbits->bits, nbits->is_signed);
    memcpy(&zero, row + at * (int64_t)sizeof zero, sizeof zero);
    return zero;
}

static const cpu_constant *constant_of(const inlay_compiled *compiled, uint32_t value)
{
    return value == INLAY_NONE || compiled->values[value].constant == INLAY_NONE
               ? NULL
               : &compiled->constants[compiled->values[value].constant];
}

void nbits_take_blocks(const inlay_compiled *compiled, cpu_nbits *nbits)
{
    const cpu_constant *codes = constant_of(compiled, nbits->q), *scales = constant_of(compiled, nbits->scale),
                       *zeros = constant_of(compiled, nbits->zero);
    const kit_blocks *blocks = blocks_of_constant(codes);
    nbits_shape shape;

    if (blocks == NULL || blocks_of_constant(scales) == NULL || codes->sources[0] != scales->sources[0] ||
        (nbits->zero != INLAY_NONE && (blocks_of_constant(zeros) == NULL || zeros->sources[0] != codes->sources[0])) ||
        !blocks_fit(blocks, nbits->k, nbits->block) || !blocks_fit(blocks_of_constant(scales), nbits->k, nbits->block))
        return;
    nbits->joint = blocks->type->read_scales != NULL &&
                   nbits_shape_init(&shape, nbits->bits, nbits->k, nbits->n, nbits->block) && nbits_join_scales(&shape);
    if (nbits->bits == 8 && nbits->zero == INLAY_NONE && nbits->all == NBITS_TABLE_ZERO &&
        compiled->state->nbits != NULL && compiled->state->nbits->tables)
        nbits->table = blocks_table(blocks);
    nbits->bits = nbits->table != NULL ? 4 : (uint8_t)blocks->type->bits;
    if (compiled->state->nbits == NULL || !compiled->state->nbits->planes || blocks_plane_bits(blocks) == 0)
        return;
    nbits->bits = blocks_plane_bits(blocks);
    if (nbits->zero == INLAY_NONE && !blocks->type->zeros) /* the middle of the codes is packed as that of bits */
        nbits->all += (float)(1 << (nbits->bits - 1)) - kit_blocks_zero(blocks);
}

void nbits_merge_zeros(const inlay_compiled *compiled, cpu_nbits *nbits)
{
    const cpu_constant *constant = constant_of(compiled, nbits->zero);
    const kit_blocks *stored = blocks_of_constant(constant);
    const int64_t blocks = (nbits->k + nbits->block - 1) / nbits->block;
    float first = 0;

    if (stored != NULL && !stored->type->zeros) {
        nbits->zero = INLAY_NONE;
        nbits->all = kit_blocks_zero(stored);
    }
    if (constant == NULL || constant->data == NULL)
        return;
    for (int64_t n = 0; n < nbits->n; n++)
        for (int64_t b = 0; b < blocks; b++) {
            const float zero = zero_at(nbits, constant->data, b, n);

            if (n == 0 && b == 0)
                first = zero;
            if (!(zero == first) || zero != floorf(zero) || fabsf(zero) >= (float)(1 << nbits->bits))
                return;
        }
    nbits->zero = INLAY_NONE;
    nbits->all = first + (float)(nbits->is_signed ? 1 << (nbits->bits - 1) : 0);
}

bool nbits_is_pack(const tensor_layout *layout)
{
    return layout->kind == LAYOUT_PACKED && layout->packing >= NBITS_WEIGHTS && layout->packing <= NBITS_JOINT;
}

void nbits_describe(const cpu_nbits *nbits, uint32_t what, const int64_t *steps, int64_t bytes, tensor_layout *layout)
{
    const int64_t dims[D_COUNT] = { nbits->bits,
                                    nbits->k,
                                    nbits->n,
                                    nbits->block,
                                    steps[0],
                                    steps[1],
                                    (nbits->is_signed ? SIGNED : 0) | (nbits->e2m1 ? E2M1 : 0),
                                    what == NBITS_ZEROS ? nbits_row_bytes(nbits) : 0 };

    memset(layout, 0, sizeof *layout);
    layout->rank = D_COUNT;
    layout->type = ELEMENT_INT8;
    layout->kind = LAYOUT_PACKED;
    memcpy(layout->dims, dims, sizeof dims);
    layout->packed_bytes = (uint64_t)bytes;
    layout->packing = what;
}

bool nbits_shape_of(const tensor_layout *layout, nbits_shape *out)
{
    const int64_t *d = layout->dims;

    return nbits_shape_init(out, (uint32_t)d[D_BITS], d[D_K], d[D_N], d[D_BLOCK]) && d[D_K_STEP] == 1 &&
           d[D_N_STEP] == (layout->packing == NBITS_WEIGHTS ? out->blocks * out->block : out->blocks) &&
           d[D_TYPE] == 0 && (layout->packing != NBITS_JOINT || nbits_join_scales(out));
}

typedef struct pack_call {
    nbits_shape shape;
    nbits_source source;
    uint8_t *out;
} pack_call;

static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const pack_call *call = user;

    (void)worker;
    nbits_pack_weights(&call->shape, &call->source, begin, end - begin,
                       call->out + nbits_weight_bytes(&call->shape) / call->shape.panels * begin);
    return INLAY_OK;
}

void nbits_pack(const cpu_state *state, const void *source, const tensor_layout *layout, void *out)
{
    const int64_t *d = layout->dims;
    pack_call call = { .source = { .data = source,
                                   .k_step = d[D_K_STEP],
                                   .n_step = d[D_N_STEP],
                                   .is_signed = (d[D_TYPE] & SIGNED) != 0,
                                   .e2m1 = (d[D_TYPE] & E2M1) != 0 },
                       .out = out };

    const bool valid = nbits_shape_init(&call.shape, (uint32_t)d[D_BITS], d[D_K], d[D_N], d[D_BLOCK]);

    INLAY_CHECK(valid && nbits_is_pack(layout) && layout->rank == D_COUNT);
    INLAY_CHECK(layout->packing != NBITS_JOINT); /* blocks_pack() */
    if (layout->packing == NBITS_WEIGHTS) /* the loop cannot fail: no run can be cancelled, and pack_panels succeeds */
        (void)state->host->parallel_for(state->host->ctx, NULL, call.shape.panels, 8, pack_panels, &call);
    else if (layout->packing == NBITS_SCALES)
        nbits_pack_floats(&call.shape, &call.source, out);
    else
        nbits_pack_zeros(&call.shape, &call.source, (uint32_t)d[D_BITS], d[D_ROW_BYTES], out);
}
