/* gguf_adapter.c - LoRA adapters as llama.cpp's converter writes them: two factors for each product, with the names of
 * the tensors of a model. */
#include "formats/gguf.h"
#include <stdio.h>
#include <string.h>

/* The value of a key of this type; NULL: the file lacks it, or it is of another type. */
static const struct gguf_value *find(const struct gguf *gguf, const char *key, uint32_t type)
{
    for (uint64_t i = 0; i < gguf->value_count; i++)
        if (gguf_text_is(gguf->values[i].key, key))
            return gguf->values[i].type == type ? &gguf->values[i] : NULL;
    return NULL;
}

static bool says(const struct gguf *gguf, const char *key, const char *text)
{
    const struct gguf_value *value = find(gguf, key, GGUF_STRING);
    const uint8_t *at = value != NULL ? value->data : NULL;

    return at != NULL && gguf_text_is(gguf_next_text(&at), text);
}

/* Gives a factor to the caller, with the name that PEFT has for it. */
static inlay_status give(const struct gguf_tensor *tensor, format_adapter *out, inlay_diag *diag)
{
    static const char *const ends[] = { ".weight.lora_a", ".weight.lora_b" };
    const size_t bytes = strlen(tensor->name), end = strlen(ends[0]);
    const kit_block_type *type = gguf_type_of(tensor);
    const int64_t dims[2] = { tensor->dims[1], tensor->dims[0] };
    const inlay_tensor_view view = { .data = tensor->part->bytes + tensor->offset,
                                     .bytes = tensor->bytes,
                                     .dims = dims,
                                     .rank = 2,
                                     .dtype = type->id == 0    ? INLAY_FLOAT
                                              : type->id == 1  ? INLAY_FLOAT16
                                              : type->id == 30 ? INLAY_BFLOAT16
                                                               : INLAY_UNDEFINED };
    const int which = bytes > end && strcmp(tensor->name + bytes - end, ends[1]) == 0;
    char prefix[GGUF_NAME], module[2 * GGUF_NAME], name[3 * GGUF_NAME];

    if (bytes <= end || strcmp(tensor->name + bytes - end, ends[which]) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "tensor '%s' is neither lora_a nor lora_b of a weight",
                          tensor->name);
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)(bytes - end), tensor->name);
    if (tensor->rank != 2 || !gguf_module_name(prefix, module, sizeof module))
        return inlay_fail(diag, INLAY_UNSUPPORTED,
                          "tensor '%s': adapters cannot change this weight, only matrices of layers", tensor->name);
    (void)snprintf(name, sizeof name, "%s.lora_%c.weight", module, which == 0 ? 'A' : 'B');
    return out->add(out->ctx, name, type->name, &view);
}

inlay_status gguf_read_adapter(const format_file *file, format_adapter *out, inlay_diag *diag)
{
    struct gguf gguf;
    const struct gguf_value *alpha;
    float number = 0;
    inlay_status status = gguf_open(file, &gguf, diag);

    if (status != INLAY_OK)
        return status;
    alpha = find(&gguf, "adapter.lora.alpha", GGUF_FLOAT32);
    if (!says(&gguf, "general.type", "adapter"))
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "is a GGUF file of no adapter, by general.type");
    else if (!says(&gguf, "adapter.type", "lora"))
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "has another kind of adapter than lora, by adapter.type");
    else if (find(&gguf, "adapter.alora.invocation_tokens", GGUF_ARRAY) != NULL)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "has adapter.alora.invocation_tokens: adapters that begin at a token are not supported");
    else if (alpha == NULL)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "lacks the number adapter.lora.alpha");
    else
        memcpy(&number, alpha->data, sizeof number);
    out->alpha = (double)number;
    for (uint64_t i = 0; status == INLAY_OK && i < gguf.tensor_count; i++)
        status = give(&gguf.tensors[i], out, diag);
    gguf_deinit(&gguf);
    return status;
}
