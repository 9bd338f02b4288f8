#include "base/boundary.h"
#include "inlay/types.h"
#include <string.h>

inlay_status boundary_status(inlay_status status)
{
    switch (status) {
#define KNOWN(number, name, text) case number:
        INLAY_STATUS_LIST(KNOWN)
#undef KNOWN
        return status;
    default:
        return INLAY_INTERNAL;
    }
}

/* Terminates the text within its array and replaces control characters. */
static void sanitize_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    for (char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

inlay_status boundary_finish_status(inlay_status status, inlay_diag *own)
{
    inlay_status known = boundary_status(status);

    own->struct_size = sizeof *own;
    sanitize_text(own->text, sizeof own->text);
    sanitize_text(own->node, sizeof own->node);
    sanitize_text(own->tensor, sizeof own->tensor);
    if (known != status && own->text[0] == '\0')
        (void)snprintf(own->text, sizeof own->text, "it returned status %d, which this host does not know",
                       (int)status);
    if (own->text[0] == '\0')
        (void)snprintf(own->text, sizeof own->text, "%s, and no reason given", inlay_status_text(known));
    if (own->error_class == INLAY_CLASS_DEFAULT || own->error_class > INLAY_CLASS_PERMANENT)
        own->error_class = inlay_status_class(known);
    own->code = known;
    return known;
}

inlay_status forward_plugin_error(const boundary_call *call, inlay_status status, inlay_diag *own, inlay_diag *diag)
{
    const char *source = call->provider != NULL ? call->provider : call->plugin;
    bool named = call->plugin != NULL && source != NULL && strcmp(source, call->plugin) != 0;

    if (status == INLAY_OK)
        return status;
    status = boundary_finish_status(status, own);
    if (diag == NULL || !INLAY_HAS(diag, tensor))
        return status;
    if (source == NULL || strncmp(own->text, "provider ", 9) == 0 || strncmp(own->text, "plugin ", 7) == 0)
        (void)inlay_fail(diag, status, "%s", own->text);
    else
        (void)inlay_fail(diag, status, "%s %.64s%s%.64s%s: %s", call->provider != NULL ? "provider" : "plugin", source,
                         named ? " (plugin " : "", named ? call->plugin : "", named ? ")" : "", own->text);
    diag->error_class = own->error_class;
    memcpy(diag->node, own->node, sizeof diag->node);
    memcpy(diag->tensor, own->tensor, sizeof diag->tensor);
    return status;
}
