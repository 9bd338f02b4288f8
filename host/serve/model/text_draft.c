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
    if (text == NULL || (text->head = calloc(1, sizeof *text->head)) == NULL)
        return no_memory(diag, "for a head");
    text->rows.in_parts = 1;
    status = text_head_find((head_model){ draft->session, draft->file.path },
                            (head_model){ model->session, model->file.path }, tokenizer_count(model->text->tokenizer),
                            outputs, text->head, diag);
    if (status != INLAY_OK)
        return status;
    text->ids = text->head->ids;
    text->mask = text->head->mask;
    text->positions = text->head->positions;
    text->last_logits = text->head->last_logits;
    text->logits = text->head->logits;
    log_line(LOG_INFO_LINE, "model '%s': a head that reads '%s' of the model and makes %s", draft->name,
             model->outputs[text->head->sources[0]].name,
             text->head->next != INLAY_NONE ? "guesses one after another" : "one guess");
    return INLAY_OK;
}
