#include "each_provider.h"

const struct setting settings[SESSIONS] = {
    [REFERENCE] = { "reference", { "providers", "reference" } },
    [CPU] = { "cpu", { "policy", "priority", "providers", "cpu,reference" } },
    [ONEDNN] = { "onednn", { "policy", "priority", "providers", "onednn?,reference" } },
    [VULKAN] = { "vulkan", { "policy", "priority", "providers", "vulkan,reference" } },
    [LEVEL_0] = { "level 0", { "providers", "reference", "level", "0" } },
};
bool available[SETTINGS];
int wrong;
static struct rig held[SETTINGS];

bool try_open(const char *script, const char *const *options, struct rig *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct wire wire = { 0 };

    script_model(&wire, 24, script);
    if (rig_try_open(&wire, options, out, &diag) == INLAY_OK)
        return true;
    rig_close(out);
    return false;
}

int find_providers(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++)
        available[i] = try_open("x : 3\ny = Relu(x)\n-> y", settings[i].options, &held[i]);
    return available[REFERENCE] ? 0 : 1; /* others may be missing */
}

int release_providers(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++)
        rig_close(&held[i]);
    return 0;
}

const struct rig *sessions_run(struct sessions *sessions, size_t setting, void (*feeder)(struct rig *, const void *),
                               const void *fed)
{
    struct rig *rig = &sessions->each[setting];

    if (rig->session == NULL && !try_open(sessions->script, settings[setting].options, rig))
        fail_msg("%s does not open\n%s", settings[setting].name, sessions->script);
    feeder(rig, fed);
    rig_run(rig);
    return rig;
}

void sessions_close(struct sessions *sessions)
{
    for (size_t i = 0; i < SESSIONS; i++)
        rig_close(&sessions->each[i]);
}

void expect_none_wrong(void)
{
    if (wrong > 0)
        fail_msg("%d results differ from those of level 0", wrong);
}
