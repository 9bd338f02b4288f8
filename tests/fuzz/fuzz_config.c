/* Any bytes as a file of settings: it is accepted, or refused with one line for each error. */
#include "config/load.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void count_lines(void *user, uint32_t level, const char *text)
{
    (void)level;
    if (strchr(text, '\n') != NULL)
        __builtin_trap(); /* a message of more than one line */
    ++*(uint32_t *)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const config_user user = { "/home/a", NULL, NULL, false };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    uint32_t lines = 0;
    inlay_status status;

    if (inlay_options_create(&options, NULL) != INLAY_OK)
        return 0;
    inlay_options_set_log(options, count_lines, &lines);
    status = config_load_text(options, (const char *)data, bytes, "a.yaml", INLAY_SOURCE_FILE, &user, &diag);
    if ((status == INLAY_OK) != (lines == 0) || (status == INLAY_OK) != (diag.text[0] == '\0'))
        __builtin_trap(); /* a failure without a message, or a message without a failure */
    inlay_options_destroy(options);
    return 0;
}
