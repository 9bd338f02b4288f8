/* constant.c - packs constant matrices. They are read in file order, in pieces that fit into the second-level cache.
 * Pages that were read are released, so the original and the packed data are never both resident in full. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/gemm.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 << 10, RELEASE_BYTES = 16 << 20, SLACK = 64 /* see gemm_pack_fn */, KEY_FORMAT = 1 };

struct packing {
    const kit_node *node;
    uint32_t input, width;
    const gemm_kernel *kernel;
    const gemm_operand *source; /* data: the constant, at any alignment */
    int64_t lines, k;
    size_t element;  /* size of an element of the constant */
    char *room;      /* buffer for a piece */
    uint64_t unread; /* bytes read since pages were last released */
};

/* Copies lines [l0, l1) and k [k0, k1) of a matrix to the buffer, without gaps and in their order in memory. */
static gemm_operand copy_piece(const struct packing *packing, int64_t matrix, int64_t l0, int64_t l1, int64_t k0,
                               int64_t k1)
{
    const gemm_operand *operand = packing->source;
    const bool along = operand->k_stride == 1;
    const int64_t runs = along ? l1 - l0 : k1 - k0, run = along ? k1 - k0 : l1 - l0;
    const int64_t stride = along ? operand->line_stride : operand->k_stride;
    const char *from = (const char *)operand->data +
                       (size_t)(matrix * operand->matrix_stride + l0 * operand->line_stride + k0 * operand->k_stride) *
                           packing->element;
    gemm_operand piece = *operand;

    for (int64_t i = 0; i < runs; i++)
        memcpy(packing->room + (size_t)(i * run) * packing->element, from + (size_t)(i * stride) * packing->element,
               (size_t)run * packing->element);
    piece.data = packing->room;
    piece.which = NULL;
    piece.matrix_stride = piece.zero_matrix_stride = 0;
    piece.line_stride = along ? run : 1;
    piece.k_stride = along ? 1 : run;
    if (operand->zero != NULL)
        piece.zero = (const char *)operand->zero +
                     (size_t)(matrix * operand->zero_matrix_stride + l0 * operand->zero_stride) * packing->element;
    return piece;
}

/* Packs a piece to its place in the packed matrix `out`. */
static void pack_piece(struct packing *packing, int64_t matrix, int64_t l0, int64_t l1, int64_t k0, int64_t k1,
                       char *out)
{
    const gemm_operand piece = copy_piece(packing, matrix, l0, l1, k0, k1);
    const int64_t rows = gemm_round_up(k1 - k0, packing->kernel->k_step), bytes = packing->kernel->in_bytes;
    char *to = out + (k0 * gemm_round_up(packing->lines, packing->width) + l0 * rows) * bytes;
    char *end = to + gemm_round_up(l1 - l0, packing->width) * rows * bytes, behind[SLACK];

    INLAY_CHECK(l0 % packing->width == 0 && l0 < l1 && k0 < k1);
    memcpy(behind, end, sizeof behind);
    piece.pack(&piece, 0, 0, l1 - l0, 0, k1 - k0, packing->width, to);
    memcpy(end, behind, sizeof behind);
    packing->unread += (uint64_t)((l1 - l0) * (k1 - k0)) * packing->element;
    if (packing->unread >= RELEASE_BYTES) {
        kit_release_constant(packing->node, packing->input);
        packing->unread = 0;
    }
}

static inlay_status pack_matrices(struct packing *packing, int64_t matrices, uint64_t each, char *out, inlay_diag *diag)
{
    const int64_t depth = gemm_min(gemm_depth(packing->kernel, packing->k), packing->k);
    const int64_t most = PIECE_BYTES / (depth * (int64_t)packing->element) / packing->width * packing->width;
    const int64_t chunk =
        gemm_min(most < packing->width ? packing->width : most, gemm_round_up(packing->lines, packing->width));
    const bool by_lines = packing->source->k_stride == 1;

    packing->room = aligned_alloc(64, gemm_align((uint64_t)(chunk * depth) * packing->element));
    if (packing->room == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack weights");
    memset(out + (uint64_t)matrices * each, 0, SLACK);
    for (int64_t m = 0; m < matrices; m++, out += each) {
        for (int64_t l = 0; by_lines && l < packing->lines; l += chunk)
            for (int64_t k = 0; k < packing->k; k += depth)
                pack_piece(packing, m, l, gemm_min(l + chunk, packing->lines), k, gemm_min(k + depth, packing->k), out);
        for (int64_t k = 0; !by_lines && k < packing->k; k += depth)
            for (int64_t l = 0; l < packing->lines; l += chunk)
                pack_piece(packing, m, l, gemm_min(l + chunk, packing->lines), k, gemm_min(k + depth, packing->k), out);
    }
    free(packing->room);
    return INLAY_OK;
}

/* The FNV-1a hash of the zero points. There are few of them, so a slow hash suffices. */
static uint64_t hash_zeros(const gemm_operand *operand, int64_t matrices, int64_t lines, size_t element)
{
    uint64_t count =
        (uint64_t)(operand->zero_stride != 0 ? lines : 1) * (uint64_t)(operand->zero_matrix_stride != 0 ? matrices : 1);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; operand->zero != NULL && i < count * element; i++)
        hash = (hash ^ ((const unsigned char *)operand->zero)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

inlay_status gemm_pack_constant(const kit_node *node, uint32_t input, const gemm_kernel *kernel, uint32_t width,
                                gemm_operand *operand, int64_t matrices, int64_t lines, int64_t k, kit_pack *out_pack,
                                inlay_diag *diag)
{
    const inlay_value_info *info = kit_input(node, input);
    const size_t element = inlay_dtype_bits(info->dtype) / 8;
    const uint64_t key[] = { KEY_FORMAT,
                             info->content_hash,
                             hash_zeros(operand, matrices, lines, element),
                             info->dtype,
                             width,
                             kernel->in_bytes,
                             kernel->acc_bytes,
                             kernel->k_step,
                             (uint64_t)gemm_depth(kernel, k),
                             (uint64_t)operand->line_stride,
                             (uint64_t)operand->k_stride,
                             (uint64_t)operand->matrix_stride,
                             (uint64_t)matrices,
                             (uint64_t)lines,
                             (uint64_t)k };
    struct packing packing = { .node = node,
                               .input = input,
                               .width = width,
                               .kernel = kernel,
                               .source = operand,
                               .lines = lines,
                               .k = k,
                               .element = element };
    inlay_status status = INLAY_OK;
    uint64_t each, all;

    if (!gemm_packed_bytes(kernel, width, lines, k, &each) || matrices < 0 ||
        __builtin_mul_overflow(each, (uint64_t)matrices, &all) || all > INT64_MAX / 2)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for packed weights, %lld x %lld x %lld",
                          (long long)matrices, (long long)lines, (long long)k);
    INLAY_CHECK(lines > 0 && k > 0 && operand->pack != NULL);
    operand->data = kit_constant_unaligned(node, input);
    INLAY_TRY(kit_pack_take(node, key, operand->scale == 0 && info->content_hash != 0 ? sizeof key : 0, all + SLACK,
                            out_pack, diag));
    if (!out_pack->filled)
        INLAY_TRY(pack_matrices(&packing, matrices, each, out_pack->data, diag));
    kit_pack_keep(node, out_pack);
    operand->packed = out_pack->data;
    operand->packed_stride = matrices > 1 ? (int64_t)each : 0;
    kit_drop_constant(node, input);
done:
    return status;
}
