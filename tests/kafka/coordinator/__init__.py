"""Tests of group coordinators."""
