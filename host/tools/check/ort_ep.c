/* `inlay plugin-check --ort-ep`: the library of an ONNX Runtime execution provider is checked through the plugin
 * ort_ep. */
#include "check/check.h"
#include "check/process.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The two functions that every such library exports, by ONNX Runtime's interface of execution providers. */
static const char *const functions[] = { "CreateEpFactories", "ReleaseEpFactory" };

static inlay_status check_library(const char *library, inlay_diag *diag)
{
    if (access(library, R_OK) != 0)
        return inlay_fail(diag, errno == ENOENT ? INLAY_NOT_FOUND : INLAY_IO_ERROR, "--ort-ep %s: %s", library,
                          strerror(errno));
    if (process_exports(library, INLAY_PLUGIN_OPEN_SYMBOL))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--ort-ep %s: it is a plugin of inlay; omit --ort-ep", library);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!process_exports(library, functions[i]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "--ort-ep %s: it is not a library of an ONNX Runtime execution provider, which exports "
                              "%s (ONNX Runtime 1.23 and later)",
                              library, functions[i]);
    return INLAY_OK;
}

inlay_status check_through_ort_ep(check_args *args, const char *library, check_ort_ep_texts *texts, inlay_diag *diag)
{
    char dir[PATH_MAX];
    inlay_status status = check_library(library, diag);

    if (status != INLAY_OK)
        return status;
    if (plugin_default_dir(dir, sizeof dir) == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "--ort-ep: the folder with inlay's plugins does not exist");
    (void)snprintf(texts->plugin, sizeof texts->plugin, "%s/inlay-ort_ep.so", dir);
    if (access(texts->plugin, R_OK) != 0)
        return inlay_fail(diag, INLAY_NOT_FOUND, "--ort-ep: provider ort_ep is not installed: %s: %s", texts->plugin,
                          strerror(errno));
    if (args->option_count == CHECK_OPTIONS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--ort-ep: more than %d options", CHECK_OPTIONS - 1);
    if (strchr(library, '/') == NULL) /* the system's loader would search for a mere name */
        (void)snprintf(texts->option, sizeof texts->option, "library=./%s", library);
    else
        (void)snprintf(texts->option, sizeof texts->option, "library=%s", library);
    args->file = texts->plugin;
    args->foreign = true;
    args->options[args->option_count++] = texts->option;
    return INLAY_OK;
}
