/* serve/chat/body.h - reads the JSON body of a request of OpenAI's API.
 *
 * Each API has a table of its parameters. Any other parameter is refused by name: if the server ignored it, the client
 * would assume that the reply obeys it. A parameter that is null is missing. */
#ifndef SERVE_BODY_H
#define SERVE_BODY_H
#include "serve/exchange/exchange.h"
#include "texts/chat/body.h"

typedef struct body_parameter {
    const char *name;
    /* Reads the value into the request. false: *error says why that failed. NULL: the parameter has no effect here. */
    bool (*read)(void *request, json_t *value, body_error *error);
} body_parameter;

typedef struct body_table {
    const body_parameter *rows; /* [count] */
    size_t count;
    const struct body_table *more; /* further parameters; NULL: none */
} body_table;

/* Parses the body of the exchange and reads its parameters into the request. The caller releases the result, which
 * owns the texts. NULL: *error says why. */
json_t *body_read(struct exchange *exchange, const body_table *table, void *request, body_error *error);
/* Reads the members of an object as parameters. */
bool body_take(json_t *object, const body_table *table, void *request, body_error *error);
/* Answers with the error. */
void body_refuse(struct exchange *exchange, const body_error *error);
#endif
