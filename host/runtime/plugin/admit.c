#include "plugin/admit.h"
#include "plugin/probe.h"
#include <stdio.h>
#include <unistd.h>

const char *plugin_outcome_text(plugin_outcome outcome)
{
    switch (outcome) {
#define OUTCOME_TEXT(name, text)                                                                                       \
    case PLUGIN_##name:                                                                                                \
        return text;
        PLUGIN_OUTCOMES(OUTCOME_TEXT)
#undef OUTCOME_TEXT
    default:
        return "?";
    }
}

inlay_status admit_open(const plugin_search *search, const char *path, const char *dir, struct admission *a,
                        inlay_diag *diag)
{
    inlay_status status;

    a->fd = -1;
    a->outcome = PLUGIN_REFUSED;
    a->fix[0] = '\0';
    a->facts.name = a->facts.providers = "";
    a->key.text[0] = a->key.file[0] = '\0';
    a->known = (struct verdict){ .kind = VERDICT_NONE };
    a->trial = (struct probe){ .pid = 0 };
    status = trust_open(path, dir, a->path, &a->fd, &a->st, diag);
    if (status == INLAY_OK && search->allow != NULL && search->allow[0] != '\0')
        status = trust_allowed(search->allow, a->fd, a->path, diag);
    return status;
}

/* What a verdict means for the file; fresh: it was given just now. */
static inlay_status obey(const struct verdict *v, bool fresh, struct admission *a, inlay_diag *diag)
{
    if (v->kind == VERDICT_OK)
        return INLAY_OK;
    if (v->kind == VERDICT_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "nobody has tried it");
    if (v->kind != VERDICT_REFUSED) {
        a->outcome = !fresh ? PLUGIN_QUARANTINED : v->kind == VERDICT_HUNG ? PLUGIN_HUNG : PLUGIN_CRASHED;
        (void)snprintf(a->fix, sizeof a->fix,
                       "it is left alone until it changes; 'inlay providers --retry %s' tries "
                       "it again",
                       a->path);
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", v->text);
}

/* Has the file tried in a process of its own, unless somebody has done so before. */
static inlay_status try_out(const plugin_search *search, struct admission *a, inlay_diag *diag)
{
    char helper[PATH_MAX], host[128];
    bool can = probe_find(helper, host);
    struct verdict *v = &a->known;

    verdict_key_init(&a->key, search->verdict_dir, a->path, &a->st, a->facts.build_id, host);
    verdict_find(&a->key, v);
    if (search->probe == PLUGIN_PROBE_NEVER && v->kind != VERDICT_CRASHED && v->kind != VERDICT_HUNG)
        v->kind = VERDICT_OK;
    if (v->kind != VERDICT_NONE)
        return INLAY_OK;
    if (!can) {
        if (search->probe == PLUGIN_PROBE_ALWAYS)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "inlay-probe is not installed, and option probe is 'always': a "
                              "file that nobody can try is not loaded");
        if (search->log != NULL)
            search->log(search->log_user, INLAY_LOG_WARNING,
                        "inlay-probe is not installed: a plugin that nobody has "
                        "tried before is loaded into this process");
        v->kind = VERDICT_OK;
        return INLAY_OK;
    }
    return probe_start(helper, a->path, search->probe_ms != 0 ? search->probe_ms : PROBE_DEFAULT_MS, &a->trial, diag);
}

inlay_status admit_begin(const plugin_search *search, struct admission *a, inlay_diag *diag)
{
    inlay_status status = note_read(a->fd, (uint64_t)a->st.st_size, &a->facts, diag);

    if (status == INLAY_INVALID_ARGUMENT && !a->facts.is_elf)
        a->outcome = PLUGIN_NOT_ELF;
    if (status == INLAY_OK)
        status = note_fits_host(&a->facts, diag);
    if (status == INLAY_OK)
        status = try_out(search, a, diag);
    return status;
}

inlay_status admit_finish(struct admission *a, inlay_diag *diag)
{
    bool fresh = a->trial.pid != 0;

    if (fresh) {
        probe_finish(&a->trial, &a->known);
        verdict_keep(&a->key, &a->known);
    }
    return obey(&a->known, fresh, a, diag);
}

void admission_close(struct admission *a)
{
    probe_abandon(&a->trial);
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = -1;
}
