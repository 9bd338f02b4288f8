#include "probe/load.h"
#include "plugin/note.h"
#include <errno.h>
#include <string.h>

inlay_status load_plugin(int fd, const char *path, plugin_module **out_module, inlay_diag *diag)
{
    static struct admission admission;
    inlay_status status;

    admission.fd = fd;
    if (fd < 0 || fstat(fd, &admission.st) != 0 || strlen(path) >= sizeof admission.path)
        return inlay_fail(diag, INLAY_IO_ERROR, "the helper cannot open it: %s", strerror(errno));
    status = note_read(fd, (uint64_t)admission.st.st_size, &admission.facts, diag);
    if (status != INLAY_OK)
        return status;
    (void)strcpy(admission.path, path);
    return module_load(path, &admission, out_module, diag);
}
