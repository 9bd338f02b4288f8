/* error.h - errors of Windows as numbers of errno.h. Private to this folder. */
#ifndef WINDOWS_ERROR_H
#define WINDOWS_ERROR_H

/* Sets errno from GetLastError(); returns -1. */
int fail_as_errno(void);
#endif
