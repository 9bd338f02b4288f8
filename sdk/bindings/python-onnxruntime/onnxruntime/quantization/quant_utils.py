"""Types and forms of quantized models."""
from enum import Enum


class QuantizationMode(Enum):
    IntegerOps = 0
    QLinearOps = 1

    def __str__(self):
        return self.name


class QuantFormat(Enum):
    QOperator = 0
    QDQ = 1

    def __str__(self):
        return self.name

    @staticmethod
    def from_string(format):
        return QuantFormat[format]


class QuantType(Enum):
    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6
    QInt2 = 7
    QUInt2 = 8

    def __str__(self):
        return self.name

    @staticmethod
    def from_string(t):
        return QuantType[t]
