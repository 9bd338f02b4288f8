/* Regions of shared memory: status, registration and its end. */
#include "codecs/json.h"
#include "serve/request/shared_memory.h"
#include "serve/routes/answers.h"
#include <string.h>

enum { NAME_BYTES = 256 };

/* The region of the path; "": none. A name that is too long is one that does not exist. */
static void read_name(const struct exchange *exchange, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "%.*s", (int)exchange->route.name_bytes,
                   exchange->route.name != NULL ? exchange->route.name : "");
}

static void finish(struct exchange *exchange, const inlay_diag *diag)
{
    if (diag->code == INLAY_OK)
        exchange->code = HTTP_OK;
    else
        exchange_fail_diag(exchange, diag);
}

static void add_region(void *user, const char *name, const char *key, uint64_t offset, uint64_t bytes)
{
    struct strbuf *to = user;

    strbuf_text(to, to->size > 1 ? ",{\"name\":" : "{\"name\":");
    strbuf_json(to, name, strlen(name));
    strbuf_text(to, ",\"key\":");
    strbuf_json(to, key, strlen(key));
    strbuf_format(to, ",\"offset\":%llu,\"byte_size\":%llu}", (unsigned long long)offset, (unsigned long long)bytes);
}

void answer_shared_memory_status(struct exchange *exchange)
{
    char name[NAME_BYTES];
    inlay_diag diag = INLAY_DIAG_INIT;

    read_name(exchange, name);
    strbuf_text(&exchange->reply, "[");
    diag.code = shared_memory_each(exchange->request.server->shared_memory, name, add_region, &exchange->reply, &diag);
    strbuf_text(&exchange->reply, "]");
    finish(exchange, &diag);
}

static bool read_number(json_reader *reader, uint64_t *out)
{
    json_text number;

    return reader_number(reader, &number) &&
           (text_to_uint64(number, out) || reader_fail(reader, "expected a non-negative integer"));
}

void answer_shared_memory_register(struct exchange *exchange)
{
    json_reader reader;
    uint64_t offset = 0, bytes = 0;
    char name[NAME_BYTES], text[256], *key = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    json_text member, ignored;

    reader_begin(&reader, exchange->body, exchange->body_bytes);
    if (reader_open(&reader, '{'))
        while (reader_member(&reader, &member))
            if (!(text_is(member, "key")         ? reader_c_string(&reader, &key)
                  : text_is(member, "offset")    ? read_number(&reader, &offset)
                  : text_is(member, "byte_size") ? read_number(&reader, &bytes)
                                                 : reader_skip(&reader, &ignored)))
                break;
    if (!reader_end(&reader)) {
        (void)snprintf(text, sizeof text, "the request's JSON, byte %zu: %s", (size_t)(reader.at - reader.start),
                       reader.error != NULL ? reader.error : "expected an object");
        exchange_fail(exchange, HTTP_BAD_REQUEST, text);
        return;
    }
    read_name(exchange, name);
    diag.code = shared_memory_register(exchange->request.server->shared_memory, name, key != NULL ? key : "", offset,
                                       bytes, &diag);
    finish(exchange, &diag);
}

void answer_shared_memory_unregister(struct exchange *exchange)
{
    char name[NAME_BYTES];
    inlay_diag diag = INLAY_DIAG_INIT;

    read_name(exchange, name);
    diag.code = shared_memory_unregister(exchange->request.server->shared_memory, name, &diag);
    finish(exchange, &diag);
}

/* The server has no CUDA regions. Triton's clients unregister all of them before they register regions of system
 * memory. */
void answer_cuda_unregister(struct exchange *exchange)
{
    exchange->code = HTTP_OK;
}
