#include "prepost/prepost.h"

inlay_status prepost_infer_same(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];

    (void)ctx, (void)diag;
    return prepost_knows_rank(input) ? prepost_set(in, 0, input->rank, input->dims) : INLAY_OK;
}

inlay_status prepost_infer_list(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_dim open = prepost_open();

    (void)ctx, (void)diag;
    return prepost_set(in, 0, 1, &open);
}

inlay_status prepost_want_rank(const inlay_infer *in, uint32_t i, uint32_t one, uint32_t other, const char *shape,
                               inlay_diag *diag)
{
    const inlay_value_info *value = i < in->input_count ? in->inputs[i] : NULL;

    if (!prepost_knows_rank(value) || value->rank == one || value->rank == other)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%.*s: input %u has rank %u; it is %s", (int)in->node->op_type.bytes,
                      in->node->op_type.data, i, value->rank, shape);
}

int prepost_word(const char *text, const char *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(text, list[i]) == 0)
            return (int)i;
    return -1;
}

bool prepost_one_of(const kit_node *node, const char *attr, const char *otherwise, const char *const *list,
                    uint32_t count, kit_refusal *why)
{
    const char *text = kit_attr_string(node->info, attr, otherwise);
    char words[128] = "use ";
    size_t at = 4;

    if (prepost_word(text, list, count) >= 0)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strlen(list[i]);

        if (at + length + 3 > sizeof words)
            break;
        if (i > 0) {
            memcpy(words + at, ", ", 2);
            at += 2;
        }
        memcpy(words + at, list[i], length);
        at += length;
    }
    words[at] = '\0';
    return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, words, "%s is '%.60s'", attr, text);
}

inlay_status prepost_put_string(const kit_call *call, inlay_str *to, const char *text, size_t bytes)
{
    char *copy = kit_alloc_string(call, bytes > 0 ? bytes : 1);

    if (copy == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a string of %llu bytes",
                          (unsigned long long)bytes);
    if (bytes > 0)
        memcpy(copy, text, bytes);
    *to = (inlay_str){ copy, bytes };
    return INLAY_OK;
}
