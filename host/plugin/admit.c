#include "plugin/admit.h"
#include <unistd.h>

const char *plugin_outcome_text(plugin_outcome outcome)
{
    switch (outcome) {
#define OUTCOME_TEXT(name, text) \
    case PLUGIN_##name:          \
        return text;
        PLUGIN_OUTCOMES(OUTCOME_TEXT)
#undef OUTCOME_TEXT
    default:
        return "?";
    }
}

inlay_status admit_open(const plugin_search *search, const char *path, const char *dir, admission *a, inlay_diag *diag)
{
    inlay_status status;

    a->fd = -1;
    a->outcome = PLUGIN_REFUSED;
    a->fix[0] = '\0';
    a->facts.name = a->facts.providers = "";
    status = trust_open(path, dir, a->path, &a->fd, &a->st, diag);
    if (status == INLAY_OK && search->allow != NULL && search->allow[0] != '\0')
        status = trust_allowed(search->allow, a->fd, a->path, diag);
    return status;
}

inlay_status admit_read(const plugin_search *search, admission *a, inlay_diag *diag)
{
    inlay_status status = note_read(a->fd, (uint64_t)a->st.st_size, &a->facts, diag);

    (void)search;
    if (status == INLAY_INVALID_ARGUMENT && !a->facts.is_elf)
        a->outcome = PLUGIN_NOT_ELF;
    if (status == INLAY_OK)
        status = note_fits_host(&a->facts, diag);
    return status;
}

void admission_close(admission *a)
{
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = -1;
}
