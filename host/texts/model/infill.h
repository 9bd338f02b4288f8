/* texts/model/infill.h - prompts for the text between a prefix and a suffix ("fill in the middle"), as models of
 * programs are trained to continue. */
#ifndef TEXTS_INFILL_H
#define TEXTS_INFILL_H
#include "texts/model/input_text.h"

enum { INFILL_ENDS = 4 };

/* The special tokens of a family of models. */
typedef struct infill_form {
    const char *prefix, *suffix; /* the tokens before each */
    const char *middle;          /* the token after both; NULL: none */
    bool suffix_first;
    const char *ends[INFILL_ENDS]; /* tokens that end the middle, besides those of the model; NULL: no more */
} infill_form;

/* Finds the form of a family whose tokens the tokenizer has, or that of the model's file. The texts are borrowed from
 * the model. false: there is none. */
bool infill_form_of(const text_model *model, infill_form *out_form);
/* Appends the tokens of the prompt: those that begin a text, and then the form's around prompt->text and the suffix.
 * false: *error names the text by "the prompt" or "the suffix". */
bool infill_tokenize(const infill_form *form, const text_model *model, input_text *prompt, const char *suffix,
                     body_error *error);
#endif
