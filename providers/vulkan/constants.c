/* Constants of a region on the device: in the layout of the model, or packed in panels. */
#include "inlay/check.h"
#include "vulkan/region.h"
#include <stdlib.h>

uint32_t vulkan_panel_columns(const gpu_facts *facts)
{
    return facts->is_cpu ? 2 : 4;
}

uint32_t vulkan_panel_lanes(const gpu_facts *facts)
{
    return facts->shuffles ? facts->subgroup : facts->is_cpu ? 8 : 32;
}

uint32_t vulkan_panel_width(const gpu_facts *facts)
{
    return vulkan_panel_columns(facts) * vulkan_panel_lanes(facts);
}

/* Panels of products of 8-bit integers are as wide as the widest tile. */
enum { BYTES_WIDTH = 128, BYTES_BLOCK = 4 };

static bool is_of_bytes(const vulkan_panels *panels)
{
    return panels->bits == 0 && panels->block == BYTES_BLOCK;
}

int64_t vulkan_panels_width(const gpu_facts *facts, const vulkan_panels *panels)
{
    return is_of_bytes(panels) ? BYTES_WIDTH : vulkan_panel_width(facts);
}

int64_t vulkan_panels_rows(const vulkan_panels *panels)
{
    return panels->block > 0 ? (panels->k + panels->block - 1) / panels->block * panels->block : panels->k;
}

bool vulkan_wants_panels(const vulkan_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vulkan_panels *out)
{
    const bool transposed = kit_attr_int(&op->info, "transB", 0) != 0;
    const vulkan_weights weights = op->row->family->weights;
    vulkan_panels panels = { .groups = 1, .taps = 1 };

    if (input != vulkan_second_factor(op))
        return false;
    if (weights == VULKAN_BLOCKS) {
        *out = vulkan_block_panels(op);
        return true;
    }
    if (rank > 2 && (weights == VULKAN_WINDOW || weights == VULKAN_TRANSPOSED_WINDOW)) {
        panels.groups = kit_attr_int(&op->info, "group", 1);
        for (uint32_t d = 2; d < rank; d++)
            panels.taps *= dims[d];
        const int64_t first = panels.groups > 0 ? dims[0] / panels.groups : 0, second = dims[1];
        const bool back = weights == VULKAN_TRANSPOSED_WINDOW;

        panels = (vulkan_panels){ .groups = panels.groups,
                                  .columns = back ? second : first,
                                  .taps = panels.taps,
                                  .k = back ? first : second,
                                  .group_step = first * second * panels.taps,
                                  .column_step = back ? panels.taps : second * panels.taps,
                                  .tap_step = 1,
                                  .k_step = back ? second * panels.taps : panels.taps };
    } else if (rank == 2 && weights == VULKAN_MATRIX) {
        panels.k = dims[transposed];
        panels.columns = dims[!transposed];
        panels.k_step = transposed ? 1 : panels.columns;
        panels.column_step = transposed ? panels.k : 1;
    }
    panels.block = vulkan_is_integer_product(op) ? BYTES_BLOCK : 0;
    *out = panels;
    return panels.columns >= 4 && panels.k > 0;
}

const vulkan_constant *vulkan_find_constant(const inlay_compiled *compiled, uint32_t value, const vulkan_panels *panels)
{
    for (uint32_t i = 0; i < compiled->constant_count; i++) {
        const vulkan_constant *constant = &compiled->constants[i];

        if (constant->value == value && constant->packed == (panels != NULL) &&
            (panels == NULL || memcmp(panels, &constant->panels, sizeof *panels) == 0))
            return constant;
    }
    return NULL;
}

static uint64_t packed_bytes(const inlay_compiled *compiled, const vulkan_panels *panels, uint32_t size)
{
    const int64_t width = vulkan_panels_width(&compiled->gpu->facts, panels);

    if (panels->bits > 0)
        return vulkan_block_bytes(panels, width);
    return (uint64_t)(panels->groups * ((panels->columns + width - 1) / width * width) * panels->taps *
                      vulkan_panels_rows(panels)) *
           size;
}

void vulkan_list_constants(inlay_compiled *compiled, const inlay_graph *graph, uint64_t *out_bytes)
{
    uint64_t at = 0;

    for (uint32_t index = 0; index < compiled->op_count; index++) {
        const vulkan_op *op = &compiled->ops[index];

        for (uint32_t i = 0; i < op->info.input_count; i++) {
            const uint32_t value = op->info.inputs[i];
            vulkan_constant constant = { .value = value, .offset = at };
            const inlay_value_info *info;
            int64_t dims[VULKAN_RANK];

            if (value == INLAY_NONE || !compiled->values[value].constant || vulkan_is_host_input(op->row, i))
                continue;
            info = inlay_graph_value(graph, compiled->values[value].snapshot);
            for (uint32_t d = 0; d < info->rank && d < VULKAN_RANK; d++)
                dims[d] = info->dims[d].value;
            constant.packed =
                info->rank <= VULKAN_RANK && vulkan_wants_panels(op, i, info->rank, dims, &constant.panels);
            if (vulkan_find_constant(compiled, value, constant.packed ? &constant.panels : NULL) != NULL)
                continue;
            constant.bytes = constant.packed ? packed_bytes(compiled, &constant.panels, vulkan_size_of(info->dtype))
                                             : info->data_bytes;
            compiled->constants[compiled->constant_count++] = constant;
            at += (constant.bytes + GPU_ALIGNMENT - 1) / GPU_ALIGNMENT * GPU_ALIGNMENT;
        }
    }
    *out_bytes = at;
}

/* Packs 8-bit integers: [groups][panels][taps][k / 4][columns of a panel][4], unsigned ones moved by -128. */
static void pack_bytes(uint8_t *to, const uint8_t *from, const vulkan_panels *panels, uint8_t moved)
{
    const int64_t rows = vulkan_panels_rows(panels), wide = (panels->columns + BYTES_WIDTH - 1) / BYTES_WIDTH;

    for (int64_t group = 0; group < panels->groups; group++)
        for (int64_t n = 0; n < panels->columns; n++)
            for (int64_t tap = 0; tap < panels->taps; tap++)
                for (int64_t k = 0; k < panels->k; k++) {
                    const int64_t line = (group * wide + n / BYTES_WIDTH) * panels->taps + tap;

                    to[line * rows * BYTES_WIDTH + (k / 4 * BYTES_WIDTH + n % BYTES_WIDTH) * 4 + k % 4] =
                        from[group * panels->group_step + n * panels->column_step + tap * panels->tap_step +
                             k * panels->k_step] ^
                        moved;
                }
}

/* Packs a constant. The columns of the last panel beyond the matrix stay 0. */
static void pack(uint8_t *to, const uint8_t *from, const vulkan_panels *panels, int64_t width, size_t size)
{
    for (int64_t group = 0; group < panels->groups; group++)
        for (int64_t first = 0; first < panels->columns; first += width)
            for (int64_t tap = 0; tap < panels->taps; tap++)
                for (int64_t k = 0; k < panels->k; k++, to += (size_t)width * size) {
                    const uint8_t *row = from + (size_t)(group * panels->group_step + first * panels->column_step +
                                                         tap * panels->tap_step + k * panels->k_step) *
                                                    size;
                    const int64_t left = panels->columns - first, columns = left < width ? left : width;

                    if (panels->column_step == 1) {
                        memcpy(to, row, (size_t)columns * size);
                        continue;
                    }
                    for (int64_t n = 0; n < columns; n++)
                        memcpy(to + (size_t)n * size, row + (size_t)(n * panels->column_step) * size, size);
                }
}

inlay_status vulkan_upload(inlay_compiled *compiled, const inlay_compile_request *request,
                           const vulkan_constant *constant, inlay_diag *diag)
{
    const inlay_value_info *info = inlay_graph_value(request->graph, compiled->values[constant->value].snapshot);
    const int64_t width = vulkan_panels_width(&compiled->gpu->facts, &constant->panels);
    uint8_t *packed;
    inlay_status status;

    INLAY_CHECK(constant->offset % GPU_ALIGNMENT == 0 && constant->offset + constant->bytes <= compiled->memory.bytes);
    request->constants[compiled->values[constant->value].snapshot] =
        constant->packed ? INLAY_CONST_PACKED : INLAY_CONST_COPIED;
    if (!constant->packed)
        return gpu_write_later(compiled->gpu, &compiled->memory, constant->offset, info->data, constant->bytes, diag);
    packed = calloc(1, constant->bytes + 1);
    if (packed == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to pack '%s'", info->name.data);
    if (constant->panels.bits > 0)
        vulkan_pack_blocks(compiled, request, constant, width, (uint32_t *)(void *)packed);
    else if (is_of_bytes(&constant->panels))
        pack_bytes(packed, info->data, &constant->panels, info->dtype == INLAY_UINT8 ? 0x80 : 0);
    else
        pack(packed, info->data, &constant->panels, width, vulkan_size_of(info->dtype));
    status = gpu_write_later(compiled->gpu, &compiled->memory, constant->offset, packed, constant->bytes, diag);
    free(packed);
    return status;
}
