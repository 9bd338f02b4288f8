/* serve/model/text.h - models for texts: what their texts need besides the session, struct model.text. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H
#include "serve/model/model.h"
#include "texts/model/purpose.h"

static inline text_source text_source_of(const struct model *model)
{
    return (text_source){ .session = model->session, .path = model->file.path, .context = model->settings.context };
}
#endif
