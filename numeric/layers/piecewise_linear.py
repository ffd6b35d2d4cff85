"""x"""


def averages(*a):
    raise NotImplementedError
