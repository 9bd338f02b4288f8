#include "texts/model/infill.h"
#include <stdlib.h>
#include <string.h>

static const infill_form forms[] = {
    /* Qwen-Coder, CodeGemma */
    { .prefix = "<|fim_prefix|>",
      .suffix = "<|fim_suffix|>",
      .middle = "<|fim_middle|>",
      .ends = { "<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|file_separator|>" } },
    /* StarCoder, Granite */
    { .prefix = "<fim_prefix>",
      .suffix = "<fim_suffix>",
      .middle = "<fim_middle>",
      .ends = { "<|endoftext|>", "<fim_pad>", "<file_sep>" } },
    /* SantaCoder */
    { .prefix = "<fim-prefix>",
      .suffix = "<fim-suffix>",
      .middle = "<fim-middle>",
      .ends = { "<|endoftext|>", "<fim-pad>" } },
    /* DeepSeek-Coder */
    { .prefix = "<\xef\xbd\x9c"
                "fim\xe2\x96\x81"
                "begin\xef\xbd\x9c>",
      .suffix = "<\xef\xbd\x9c"
                "fim\xe2\x96\x81hole\xef\xbd\x9c>",
      .middle = "<\xef\xbd\x9c"
                "fim\xe2\x96\x81"
                "end\xef\xbd\x9c>" },
    /* CodeLlama */
    { .prefix = "\xe2\x96\x81<PRE>",
      .suffix = "\xe2\x96\x81<SUF>",
      .middle = "\xe2\x96\x81<MID>",
      .ends = { "\xe2\x96\x81<EOT>" } },
    { .prefix = "<PRE>", .suffix = "<SUF>", .middle = "<MID>", .ends = { "<EOT>" } },
    /* Falcon-H1 */
    { .prefix = "<|prefix|>", .suffix = "<|suffix|>", .middle = "<|middle|>" },
    /* GLM */
    { .prefix = "<|code_prefix|>", .suffix = "<|code_suffix|>", .middle = "<|code_middle|>" },
    /* Codestral */
    { .prefix = "[PREFIX]", .suffix = "[SUFFIX]", .suffix_first = true },
};

static bool has_tokens(const struct tokenizer *tokenizer, const infill_form *form)
{
    const char *const texts[] = { form->prefix, form->suffix, form->middle };
    bool has = true;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        has = has && (texts[i] == NULL || (texts[i][0] != '\0' && tokenizer_id(tokenizer, texts[i]) >= 0));
    return has;
}

bool infill_form_of(const text_model *model, infill_form *out_form)
{
    const infill_form own = { .prefix = model->fill[0],
                              .suffix = model->fill[1],
                              .middle = model->fill[2],
                              .ends = { model->fill[3][0] != '\0' ? model->fill[3] : NULL } };
    const bool has_own = has_tokens(model->tokenizer, &own);

    *out_form = own;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (has_tokens(model->tokenizer, &forms[i]) && (!has_own || strcmp(forms[i].prefix, own.prefix) == 0)) {
            *out_form = forms[i];
            return true;
        }
    return has_own;
}

/* Appends a special token; NULL: none. */
static bool add_mark(const text_model *model, input_text *prompt, const char *mark, body_error *error)
{
    int64_t *more;

    if (mark == NULL)
        return true;
    more = realloc(prompt->tokens, (prompt->token_count + 1) * sizeof *more);
    if (more == NULL)
        return body_fail(error, "out of memory for the tokens of the prompt");
    prompt->tokens = more;
    prompt->tokens[prompt->token_count++] = tokenizer_id(model->tokenizer, mark);
    return true;
}

/* Appends a special token and the text after it. */
static bool add_part(const text_model *model, input_text *prompt, const char *mark, const char *text, const char *name,
                     body_error *error)
{
    input_text part = { .text = text, .tokens = prompt->tokens, .token_count = prompt->token_count };
    bool good = add_mark(model, &part, mark, error) && input_text_tokenize(&part, model, false, name, error);

    prompt->tokens = part.tokens;
    prompt->token_count = part.token_count;
    return good;
}

bool infill_tokenize(const infill_form *form, const text_model *model, input_text *prompt, const char *suffix,
                     body_error *error)
{
    if (!tokenizer_encode(model->tokenizer, "", true, &prompt->tokens, &prompt->token_count))
        return body_fail(error, "out of memory for the tokens of the prompt");
    for (int i = 0; i < 2; i++) {
        const bool is_suffix = (i == 1) != form->suffix_first;

        if (!add_part(model, prompt, is_suffix ? form->suffix : form->prefix, is_suffix ? suffix : prompt->text,
                      is_suffix ? "the suffix" : "the prompt", error))
            return false;
    }
    return add_mark(model, prompt, form->middle, error);
}
