#include "explain/explain.h"
#include "explain/internal.h"
#include <string.h>

static inlay_status check_format(const char *format, inlay_diag *diag)
{
    if (strcmp(format, "text") == 0 || strcmp(format, "json") == 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "there is no explanation as '%s'; use text or json", format);
}

inlay_status explain_session(const inlay_session *s, const inlay_explain_options *options, const timings *m,
                             inlay_write_fn write, void *user, inlay_diag *diag)
{
    const char *format = options->format != NULL ? options->format : "text";
    bool all = (options->flags & INLAY_EXPLAIN_ALL) != 0;
    explain_sink sink = { write, user };
    inlay_status status = INLAY_OK;
    facts *f = NULL;

    INLAY_TRY(check_format(format, diag));
    if ((options->flags & 0xffffu & ~(uint32_t)INLAY_EXPLAIN_ALL) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_explain_options.flags: %#x has an unknown bit",
                          options->flags);
    INLAY_TRY(facts_create(s, m, &f, diag));
    INLAY_TRY(facts_find_rivals(f, diag));
    if (strcmp(format, "json") == 0)
        json_session(f, &sink, all);
    else
        text_session(f, &sink, options->columns, all);
done:
    facts_destroy(f);
    return status;
}
