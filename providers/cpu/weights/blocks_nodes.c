/* Which nodes UnpackBlocks the provider reads, and how. */
#include "cpu/matrix/sgemm.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "cpu/weights/blocks.h"
#include "cpu/weights/nbits.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(blocks_is_constant, "cpu_blocks");
OPTIONAL_WITH(blocks_fit, "cpu_blocks");
OPTIONAL_WITH(blocks_plane_bits, "cpu_blocks");
OPTIONAL_WITH(blocks_table, "cpu_blocks");

static bool read_node(const kit_node *node, kit_blocks *out)
{
    const inlay_value_info *input = kit_input(node, 0), *codes = kit_output(node, BLOCKS_CODES),
                           *scales = kit_output(node, BLOCKS_SCALES), *zeros = kit_output(node, BLOCKS_ZEROS);

    return input != NULL && (input->flags & INLAY_VALUE_CONSTANT) != 0 && input->data != NULL && codes != NULL &&
           scales != NULL && kit_blocks_of(node->info, out) && cpu_known_count(codes) > 0 &&
           codes->rank <= CPU_MAX_RANK &&
           kit_blocks_fit(out, input->data_bytes, (uint64_t)cpu_known_count(codes),
                          (uint64_t)cpu_known_count(scales)) &&
           (zeros == NULL || cpu_known_count(zeros) == cpu_known_count(scales));
}

bool blocks_parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    if (sgemm_kernel_best() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON",
                          "this CPU has no kernel for packed weights");
    return read_node(node, &op->blocks) || kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant of whole blocks",
                                                      "it is not a constant of blocks of a known type");
}

bool blocks_is_constant(const inlay_graph *graph, uint32_t value)
{
    const inlay_value_info *info = value == INLAY_NONE ? NULL : inlay_graph_value(graph, value);
    const kit_node maker = { .graph = graph,
                             .info = info != NULL && info->producer < graph->node_count
                                         ? inlay_graph_node(graph, info->producer)
                                         : NULL };
    kit_blocks blocks;

    return maker.info != NULL && strcmp(maker.info->op_type.data, "UnpackBlocks") == 0 &&
           strcmp(maker.info->domain.data, "ai.inlay") == 0 && read_node(&maker, &blocks);
}

bool blocks_fit(const kit_blocks *blocks, int64_t k, int64_t block)
{
    return blocks->type != NULL && blocks->group == block && k % blocks->type->elements == 0;
}

const uint8_t *blocks_table(const kit_blocks *blocks)
{
    return blocks->bits == 8 ? blocks->type->table : NULL;
}

uint8_t blocks_plane_bits(const kit_blocks *blocks)
{
    const int64_t least = blocks->type->least;

    return !nbits_has_planes(least) ? 0 : blocks->group % nbits_unit((int)least) == 0 ? (uint8_t)least : 6;
}
