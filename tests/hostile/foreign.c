/* Stands for a runtime library of another compiler or system. */
int foreign_runtime(void);

int foreign_runtime(void)
{
    return 0;
}
