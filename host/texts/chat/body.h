/* texts/chat/body.h - reads values of the JSON body of a request of OpenAI's API. */
#ifndef TEXTS_BODY_H
#define TEXTS_BODY_H
#include "inlay/status.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct body_error {
    char text[256];
    char parameter[64]; /* "" = none */
    const char *code;   /* as in OpenAI's API; NULL = none */
    int status;         /* of the reply; 0 = 400 */
} body_error;

/* Sets the text of the error and returns false. The caller adds the parameter's name. */
INLAY_PRINTF(2, 3) bool body_fail(body_error *error, const char *format, ...);
/* The same for a parameter, whose name is added. */
bool body_fail_parameter(body_error *error, const char *parameter, const char *text);
/* The same for a text of `bytes` bytes, which is more than `most`. */
bool body_fail_length(body_error *error, const char *what, size_t bytes, size_t most);
/* A number from least to most; whole: without a fraction. */
bool body_number(const json_t *value, double least, double most, bool whole, double *out, body_error *error);
/* Refuses members of the object that are none of the names, a list that ends with NULL, unless they are null. */
bool body_members(json_t *object, const char *const *names, body_error *error);
bool body_bool(const json_t *value, bool *out, body_error *error);
/* One of the texts of the list, which ends with NULL. */
bool body_choice(const json_t *value, const char *const *choices, uint32_t *out, body_error *error);
/* An array of token ids. The caller frees *out_tokens. */
bool body_tokens(const json_t *value, int64_t **out_tokens, size_t *out_count, body_error *error);
#endif
