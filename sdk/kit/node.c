/* Access to a node, its values and constants, and packed weights. */
#include "internal.h"
#include "inlay/extensions.h"
#include <stdio.h>

const char kit_nothing[KIT_ALIGNMENT] __attribute__((aligned(KIT_ALIGNMENT)));

static const inlay_value_info *value_at(const kit_node *node, const uint32_t *list, uint32_t count, uint32_t i)
{
    return i < count ? inlay_graph_value(node->graph, list[i]) : NULL;
}

const inlay_value_info *kit_input(const kit_node *node, uint32_t i)
{
    return value_at(node, node->info->inputs, node->info->input_count, i);
}

const inlay_value_info *kit_output(const kit_node *node, uint32_t i)
{
    return value_at(node, node->info->outputs, node->info->output_count, i);
}

const char *kit_op_type(const kit_node *node)
{
    return node->info->op_type.data;
}

uint32_t kit_since_version(const kit_node *node)
{
    return node->info->since_version;
}

inlay_dtype kit_input_dtype(const kit_node *node, uint32_t i)
{
    const inlay_value_info *value = kit_input(node, i);
    return value != NULL ? value->dtype : INLAY_UNDEFINED;
}

inlay_dtype kit_output_dtype(const kit_node *node, uint32_t i)
{
    const inlay_value_info *value = kit_output(node, i);
    return value != NULL ? value->dtype : INLAY_UNDEFINED;
}

bool kit_is_constant(const kit_node *node, uint32_t i)
{
    const inlay_value_info *value = kit_input(node, i);
    return value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0;
}

const void *kit_constant(const kit_node *node, uint32_t i)
{
    if (!kit_is_constant(node, i) || node->compile_handle == NULL)
        return NULL;
    if (kit_input(node, i)->data_bytes == 0)
        return kit_nothing;
    return node->host->align_constant(node->host->ctx, node->compile_handle, node->info->inputs[i], KIT_ALIGNMENT);
}

const void *kit_constant_unaligned(const kit_node *node, uint32_t i)
{
    const inlay_value_info *value = kit_input(node, i);

    if (!kit_is_constant(node, i))
        return NULL;
    return value->data_bytes == 0 ? kit_nothing : value->data;
}

void kit_drop_constant(const kit_node *node, uint32_t i)
{
    if (node->constant_fate != NULL && kit_is_constant(node, i))
        node->constant_fate[i] = INLAY_CONST_PACKED;
}

void kit_accept_unaligned(const kit_node *node, uint32_t i)
{
    if (node->constant_fate != NULL && kit_is_constant(node, i) && kit_input_dtype(node, i) != INLAY_STRING)
        node->constant_fate[i] = KIT_CONST_UNALIGNED;
}

static const void *host_extension(const kit_node *node, const char *name)
{
    return INLAY_HAS(node->host, extension) && node->host->extension != NULL && node->compile_handle != NULL
               ? node->host->extension(node->host->ctx, name)
               : NULL;
}

void kit_release_constant(const kit_node *node, uint32_t i)
{
    const inlay_ext_constants *constants = host_extension(node, INLAY_EXT_CONSTANTS);

    if (constants != NULL && INLAY_HAS(constants, release) && kit_is_constant(node, i))
        constants->release(node->host->ctx, node->compile_handle, node->info->inputs[i]);
}

static const inlay_ext_packs *host_packs(const kit_node *node)
{
    const inlay_ext_packs *packs = host_extension(node, INLAY_EXT_PACKS);

    return packs != NULL && INLAY_HAS(packs, keep) ? packs : NULL;
}

inlay_status kit_pack_take(const kit_node *node, const void *key, uint64_t key_bytes, uint64_t bytes, kit_pack *out,
                           inlay_diag *diag)
{
    const inlay_ext_packs *packs = key_bytes > 0 ? host_packs(node) : NULL;
    inlay_status status = INLAY_UNSUPPORTED;
    uint32_t known = 0;

    *out = (kit_pack){ NULL, false, false };
    if (packs != NULL)
        status = packs->take(node->host->ctx, node->compile_handle, key, key_bytes, bytes, &out->data, &known);
    if (status == INLAY_OK) {
        out->filled = known != 0;
        return INLAY_OK;
    }
    out->own = true;
    out->data = bytes < SIZE_MAX - KIT_ALIGNMENT && status == INLAY_UNSUPPORTED
                    ? aligned_alloc(KIT_ALIGNMENT, ((size_t)bytes + KIT_ALIGNMENT) / KIT_ALIGNMENT * KIT_ALIGNMENT)
                    : NULL;
    if (out->data != NULL)
        return INLAY_OK;
    *out = (kit_pack){ NULL, false, false };
    return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %llu bytes of packed weights",
                      (unsigned long long)bytes);
}

void kit_pack_keep(const kit_node *node, const kit_pack *pack)
{
    const inlay_ext_packs *packs = pack->own || pack->filled || pack->data == NULL ? NULL : host_packs(node);

    INLAY_CHECK(!pack->own || !pack->filled);
    if (packs != NULL)
        packs->keep(node->host->ctx, node->compile_handle, pack->data);
}

void kit_pack_free(kit_pack *pack)
{
    if (pack->own)
        free(pack->data);
    *pack = (kit_pack){ NULL, false, false };
}

bool kit_refuse(kit_refusal *why, uint32_t code, const char *accepted_if, const char *format, ...)
{
    va_list args;

    why->code = code;
    (void)snprintf(why->accepted_if, sizeof why->accepted_if, "%s", accepted_if != NULL ? accepted_if : "");
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return false;
}
