/* watchdog/attach.c - the options watchdog and watchdog_dir of a session. */
#include "base/among.h"
#include "config/dirs.h"
#include "watchdog/watchdog.h"
#include <limits.h>
#include <string.h>

/* May some provider compute floats with fewer bits? */
static bool is_reduced(const inlay_session *session)
{
    for (uint32_t i = 0; i < session->env.provider_count; i++)
        for (uint32_t k = 0; k < session->providers[i].setting_count; k++) {
            const provider_setting *setting = &session->providers[i].settings[k];

            if ((strcmp(setting->name, "precision") == 0 && is_among(setting->value, "fast reduced")) ||
                (strcmp(setting->name, "activations") == 0 && is_among(setting->value, "fine byte")))
                return true;
        }
    return false;
}

inlay_status watchdog_attach(inlay_session *session, const inlay_options *options, double rate, inlay_diag *diag)
{
    const char *given = options_text(options, OPTION_watchdog_dir);
    watchdog_settings settings = {
        .env = &session->env, .rate = rate, .folder = given, .reduced = is_reduced(session)
    };
    char folder[PATH_MAX];
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    status = provider_open(session->plugins, "reference", NULL, 0, &settings.judge, &why);
    if (status != INLAY_OK)
        return inlay_fail(diag, status, "option watchdog needs provider reference: %s", why.text);
    if (strcmp(given, "auto") == 0) {
        (void)config_cache_folder(options, "watchdog", folder, sizeof folder);
        settings.folder = folder;
    }
    status = watchdog_create(&settings, &session->client, diag);
    if (status != INLAY_OK)
        provider_close(settings.judge);
    return status;
}
