/* Any bytes as a config.pbtxt: the message is read and written as JSON, or it is refused with one line. */
#include "model_config.pb-c.h"
#include "codecs/message_json.h"
#include "codecs/pbtxt.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct strbuf json = { .data = NULL };
    struct pbtxt text;

    if (pbtxt_parse((const char *)data, bytes, "config.pbtxt", &inference__model_config__descriptor, &text, &diag) ==
        INLAY_OK)
        message_json(&json, text.message);
    else if (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL)
        __builtin_trap(); /* a failure without a message */
    strbuf_deinit(&json);
    pbtxt_close(&text);
    return 0;
}
