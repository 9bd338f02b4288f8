/* Draft models. */
#include "base/memory.h"
#include "texts/model/text_model.h"
#include <stdlib.h>

/* The number of the model's tokens: of its logits, which may be more than the tokenizer has. */
static size_t count_words(const text_model *model)
{
    inlay_io_info logits = { .struct_size = sizeof logits };

    (void)inlay_session_output(model->decode.session, model->decode.logits, &logits);
    return logits.rank == 3 && logits.dims[2] > 0 ? (size_t)logits.dims[2] : tokenizer_count(model->tokenizer);
}

inlay_status text_model_open_head(const text_source *draft, const text_model *model, const char *model_path,
                                  const char *outputs, text_model **out_draft, inlay_diag *diag)
{
    text_model *text = *out_draft = calloc(1, sizeof *text);
    inlay_status status;

    if (text == NULL || (text->decode.head = calloc(1, sizeof *text->decode.head)) == NULL)
        return no_memory(diag, "for a head");
    text->decode.session = draft->session;
    text->decode.has_states = inlay_session_state_count(draft->session) > 0;
    text->decode.rows.in_parts = 1;
    status =
        text_head_find((head_model){ draft->session, draft->path }, (head_model){ model->decode.session, model_path },
                       count_words(model), outputs, text->decode.head, diag);
    if (status != INLAY_OK)
        return status;
    text->decode.ids = text->decode.head->ids;
    text->decode.mask = text->decode.head->mask;
    text->decode.positions = text->decode.head->positions;
    text->decode.last_logits = text->decode.head->last_logits;
    text->decode.logits = text->decode.head->logits;
    return INLAY_OK;
}

inlay_status text_model_check_draft(const text_source *source, const text_model *draft, const text_model *model,
                                    inlay_diag *diag)
{
    char why[400];

    if (draft == NULL || draft->decode.logits == INLAY_NONE) {
        text_model_explain(source, why, sizeof why);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: it cannot be a draft model: %s", source->path, why);
    }
    if (draft->decode.rows.fixed_bytes > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: a draft model needs keys and values as states",
                          source->path);
    if (tokenizer_count(model->tokenizer) != tokenizer_count(draft->tokenizer))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: its tokenizer has %lld tokens, that of the model %lld",
                          source->path, (long long)tokenizer_count(draft->tokenizer),
                          (long long)tokenizer_count(model->tokenizer));
    return INLAY_OK;
}
