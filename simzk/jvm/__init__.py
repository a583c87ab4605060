"""Rules of Java and Scala that decide by hash or by format: hash codes, map and set orders, random numbers, numbers.

This package is the bottom of simzk: it imports nothing else of simzk. `scala_columns` alone needs numpy.
"""
