/* Draft models that are heads. */
#include "serve/model/text.h"
#include "inlay/check.h"
#include "serve/base/log.h"
#include <stdlib.h>

inlay_status text_model_open_head(struct model *draft, const struct model *model, const char *outputs, inlay_diag *diag)
{
    text_model *text = calloc(1, sizeof *text);
    inlay_status status;

    INLAY_CHECK(draft->text == NULL);
    draft->text = text;
    if (text == NULL || (text->decode.head = calloc(1, sizeof *text->decode.head)) == NULL)
        return no_memory(diag, "for a head");
    text->decode.rows.in_parts = 1;
    status = text_head_find((head_model){ draft->session, draft->file.path },
                            (head_model){ model->session, model->file.path }, tokenizer_count(model->text->tokenizer),
                            outputs, text->decode.head, diag);
    if (status != INLAY_OK)
        return status;
    text->decode.ids = text->decode.head->ids;
    text->decode.mask = text->decode.head->mask;
    text->decode.positions = text->decode.head->positions;
    text->decode.last_logits = text->decode.head->last_logits;
    text->decode.logits = text->decode.head->logits;
    log_line(LOG_INFO_LINE, "model '%s': a head that reads '%s' of the model and makes %s", draft->name,
             model->outputs[text->decode.head->sources[0]].name,
             text->decode.head->next != INLAY_NONE ? "guesses one after another" : "one guess");
    return INLAY_OK;
}
