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

inlay_status admit_open(const plugin_search *search, const char *path, const char *dir, struct admission *admission,
                        inlay_diag *diag)
{
    inlay_status status;

    admission->fd = -1;
    admission->outcome = PLUGIN_REFUSED;
    admission->fix[0] = '\0';
    admission->facts.name = admission->facts.providers = "";
    admission->key.text[0] = admission->key.file[0] = '\0';
    admission->known = (struct verdict){ .kind = VERDICT_NONE };
    admission->trial = (struct probe){ .pid = 0 };
    status = trust_open(path, dir, admission->path, &admission->fd, &admission->st, diag);
    if (status == INLAY_OK && search->allow != NULL && search->allow[0] != '\0')
        status = trust_allowed(search->allow, admission->fd, admission->path, diag);
    return status;
}

/* What a verdict means for the file; fresh: it was given just now. */
static inlay_status obey(const struct verdict *verdict, bool fresh, struct admission *admission, inlay_diag *diag)
{
    if (verdict->kind == VERDICT_OK)
        return INLAY_OK;
    if (verdict->kind == VERDICT_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "nobody has tried it");
    if (verdict->kind != VERDICT_REFUSED) {
        admission->outcome = !fresh ? PLUGIN_QUARANTINED : verdict->kind == VERDICT_HUNG ? PLUGIN_HUNG : PLUGIN_CRASHED;
        (void)snprintf(admission->fix, sizeof admission->fix,
                       "it is left alone until it changes; 'inlay providers --retry %s' tries "
                       "it again",
                       admission->path);
    }
    return inlay_fail(diag, INLAY_UNSUPPORTED, "%s", verdict->text);
}

/* Has the file tried in a process of its own, unless somebody has done so before. */
static inlay_status try_out(const plugin_search *search, struct admission *admission, inlay_diag *diag)
{
    char helper[PATH_MAX], host[128];
    bool can = probe_find(helper, host);
    struct verdict *verdict = &admission->known;

    verdict_key_init(&admission->key, search->verdict_dir, admission->path, &admission->st, admission->facts.build_id,
                     host);
    verdict_find(&admission->key, verdict);
    if (search->probe == PLUGIN_PROBE_NEVER && verdict->kind != VERDICT_CRASHED && verdict->kind != VERDICT_HUNG)
        verdict->kind = VERDICT_OK;
    if (verdict->kind != VERDICT_NONE)
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
        verdict->kind = VERDICT_OK;
        return INLAY_OK;
    }
    return probe_start(helper, admission->path, search->probe_ms != 0 ? search->probe_ms : PROBE_DEFAULT_MS,
                       &admission->trial, diag);
}

inlay_status admit_begin(const plugin_search *search, struct admission *admission, inlay_diag *diag)
{
    inlay_status status = note_read(admission->fd, (uint64_t)admission->st.st_size, &admission->facts, diag);

    if (status == INLAY_INVALID_ARGUMENT && !admission->facts.is_elf)
        admission->outcome = PLUGIN_NOT_ELF;
    if (status == INLAY_OK)
        status = note_fits_host(&admission->facts, diag);
    if (status == INLAY_OK)
        status = try_out(search, admission, diag);
    return status;
}

inlay_status admit_finish(struct admission *admission, inlay_diag *diag)
{
    bool fresh = admission->trial.pid != 0;

    if (fresh) {
        probe_finish(&admission->trial, &admission->known);
        verdict_keep(&admission->key, &admission->known);
    }
    return obey(&admission->known, fresh, admission, diag);
}

void admission_close(struct admission *admission)
{
    probe_abandon(&admission->trial);
    if (admission->fd >= 0)
        (void)close(admission->fd);
    admission->fd = -1;
}
